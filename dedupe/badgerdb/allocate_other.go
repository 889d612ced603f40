//go:build !linux

package badgerdb

import "os"

// allocate gives an empty file n bytes of disk, by writing them. A file system that compresses
// keeps less, or nothing: it gives no ballast.
func allocate(f *os.File, n int64) error {
	for n > 0 {
		m, err := f.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}
