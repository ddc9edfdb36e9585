"""A trained model as a page in the browser of this machine: `session` answers, `server` guards, `static` shows."""
