"""A snapshot enters; where and when tracks were seen, and which videos show one scene, leaves."""
