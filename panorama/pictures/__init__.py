"""A picture enters, as bytes or as other packages hold it; upright pixels, and what it says, leave."""
