//! How packets move: buffers, vectors, nodes, graph, workers.
