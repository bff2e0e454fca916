//go:build unix && !solaris && !aix

package servicetest

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits until no other process, and no other opening of the file, has its lock. Closing the file gives it back, and so does the
// end of the process in whatever way.
func lockFile(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
