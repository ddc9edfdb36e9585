"""What is compiled from C++: the CPU kernel of the layers, and loops over the nodes and edges of a graph."""
