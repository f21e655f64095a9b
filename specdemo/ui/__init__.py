"""The page: Gradio only. Adapts the race to a browser."""
