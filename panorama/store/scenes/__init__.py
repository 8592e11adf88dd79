"""A snapshot comes in; where and when tracks were seen, and which videos show one scene, goes out."""
