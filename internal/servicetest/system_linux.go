package servicetest

import (
	"os"
	"syscall"
)

// withParent lets a child end with the test's process, even where that is killed or panics, so that no cleanup runs.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// lockFile waits until no other process, and no other opening of the file, has its lock. Closing the file gives it back.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
