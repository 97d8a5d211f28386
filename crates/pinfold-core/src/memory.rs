//! The memory manager: on which NUMA nodes a container may place its memory and hugepages.
