"""What EGT is compared with: message-passing layers in its place, and rules that need no network of graphs."""
