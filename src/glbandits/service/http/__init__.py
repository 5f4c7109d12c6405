"""The service over HTTP: an ASGI application on Starlette, and uvicorn as its server."""
