"""Work in processes of its own: started, watched, asked, limited, and ended with all they started.

The code of others runs under two guards (module `guarding`): a supervisor and an inner one. The
program (module `processes`) asks the supervisor (module `supervisor`) to start a process, talks
with it in messages (module `messages`), and watches the time and memory of commands (`watching`).
"""
