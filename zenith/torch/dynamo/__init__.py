"""The ``torch.compile`` backend: graphs of AOTAutograd as Zenith programs."""
