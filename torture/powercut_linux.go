package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// How a power cut leaves the file system's journal.
const (
	CutFlushed   uint32 = 1 // what had reached the journal in memory is written
	CutUnflushed uint32 = 2 // nothing more is written
)

// fsShutdown is FS_IOC_SHUTDOWN: from the call on nothing reaches the disk.
const fsShutdown = 0x8004587d

// Disk is an ext4 file system in a file, whose power can be cut. It belongs
// into a mount namespace of its own: any process that was started meanwhile
// would otherwise keep the dead file system mounted.
type Disk struct {
	Mount string // where it is mounted
	image string
}

// NewDisk makes a file system of that many bytes under dir and mounts it. It
// needs root and loop devices.
func NewDisk(ctx context.Context, dir string, size int64) (*Disk, error) {
	d := &Disk{Mount: filepath.Join(dir, "mnt"), image: filepath.Join(dir, "disk.img")}
	if err := os.MkdirAll(d.Mount, 0o700); err != nil {
		return nil, fmt.Errorf("make mount point: %w", err)
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, fmt.Errorf("create image: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, fmt.Errorf("size image: %w", err)
	}
	if err := execute(ctx, "mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.mount(ctx)
}

func (d *Disk) mount(ctx context.Context) error {
	return execute(ctx, "mount", "-t", "ext4", "-o", "loop", d.image, d.Mount)
}

// Cut is the power cut: whatever was not synced before it is gone.
func (d *Disk) Cut(flag uint32) error {
	f, err := os.Open(d.Mount)
	if err != nil {
		return fmt.Errorf("cut power: %w", err)
	}
	defer f.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fsShutdown, uintptr(unsafe.Pointer(&flag)))
	runtime.KeepAlive(&flag)
	if errno != 0 {
		return fmt.Errorf("cut power: FS_IOC_SHUTDOWN: %w", errno)
	}
	return nil
}

// Remount is the power coming back: the journal is replayed. No process may
// use the file system any more.
func (d *Disk) Remount(ctx context.Context) error {
	if err := d.unmount(ctx); err != nil {
		return err
	}
	return d.mount(ctx)
}

// Close unmounts the file system and removes the image.
func (d *Disk) Close(ctx context.Context) error {
	return errors.Join(d.unmount(ctx), os.Remove(d.image))
}

// unmount tries again while the last user is still being cleaned up.
func (d *Disk) unmount(ctx context.Context) error {
	var last error
	err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
		last = execute(ctx, "umount", d.Mount)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// InNamespace makes cmd run in a mount namespace of its own, nothing of which
// is seen outside.
func InNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}

func execute(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}
