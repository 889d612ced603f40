//go:build !linux

package main

import "syscall"

// withParent has nothing to add where the kernel can't tie two processes.
func withParent() *syscall.SysProcAttr { return nil }

func apart() *syscall.SysProcAttr { return nil }

// unprivileged has nothing to add either: run the suite as a user that isn't
// root there.
func unprivileged(string, syscall.Signal) (*syscall.SysProcAttr, error) { return nil, nil }
