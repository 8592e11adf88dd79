"""The drawn world of the sample archive: point clouds enter a camera, pictures and boxes leave."""
