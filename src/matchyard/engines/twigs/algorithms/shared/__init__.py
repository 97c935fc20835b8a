"""Parts that several algorithms of twigs share."""

__all__ = ["stored_twigs"]
