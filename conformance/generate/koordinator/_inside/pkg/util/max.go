package util

// MaxInt64 is the larger number. Its file is left out: it links clients of the API server.
func MaxInt64(a, b int64) int64 { return max(a, b) }
