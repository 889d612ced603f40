package badgerdb

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestSyncWritesLittle: a sync writes the pages that changed, and nothing of what
// was written ahead around them.
func TestSyncWritesLittle(t *testing.T) { // alone: what the process writes is counted
	const size, syncs = 16 << 20, 200
	f, err := os.Create(filepath.Join(t.TempDir(), "00001"+walSuffix))
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(log)
	w := &wal{f: f, size: size, flush: datasync}
	if err := w.ahead(); err != nil {
		t.Fatal(err)
	}
	if err := w.flush(f); err != nil {
		t.Fatal(err)
	}
	before := written(t)
	for i := range syncs {
		log[i*1000] = 1
		if err := w.flush(f); err != nil {
			t.Fatal(err)
		}
	}
	if each := (written(t) - before) / syncs; each > 8<<10 {
		t.Errorf("a sync of one changed byte writes %d bytes", each)
	}
}

// written is what the process has had the system write to disks, in bytes.
func written(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	count, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return n
}
