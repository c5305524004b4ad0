"""Work in processes of its own: started, watched, asked, limited, and ended with all they started.

The program (module `processes`) asks a supervisor (module `supervisor`) to start a process, talks
with it in messages (module `messages`), and watches the time and memory of commands (`watching`).
"""
