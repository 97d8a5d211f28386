//! What happens to a node is survived: kills, damage, full disks, second openers. Real files, real processes.

mod damage;
mod disk;
mod kill;
mod scene;
