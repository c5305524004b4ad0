"""The jobs of the application on the threads of the engine. No Qt."""
