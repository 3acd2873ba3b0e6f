package ground

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// Profiles writes profiles of a process, which its admin server makes. The zero
// value writes none.
type Profiles struct {
	Folder  string // empty writes none
	Size    int    // with which the names of the files start
	Admin   string // address of the admin server
	Process *programs.Process
}

// CPU starts to record a CPU profile. finish waits for the file; the capacity of
// the channel lets the goroutine end even if finish is not called.
func (p Profiles) CPU(ctx context.Context, name string, length time.Duration) (finish func() error) {
	if p.Folder == "" {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		ended <- p.save(ctx, name+".cpu", fmt.Sprintf("profile?seconds=%d", max(1, int(length.Seconds()))))
	}()
	return func() error { return <-ended }
}

// Heap writes a heap profile after a garbage collection.
func (p Profiles) Heap(ctx context.Context, name string) error {
	if p.Folder == "" {
		return nil
	}
	return p.save(ctx, name+".heap", "heap?gc=1")
}

// save requests a profile and writes it. It retries until the admin server
// listens, so that a profile can begin with the process.
func (p Profiles) save(ctx context.Context, name, page string) error {
	var text string
	err := p.Process.Await(ctx, 10*time.Millisecond, func(ctx context.Context) (err error) {
		text, err = programs.Fetch(ctx, "http://"+p.Admin+"/debug/pprof/"+page)
		return err
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.Folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.Folder, fmt.Sprintf("%d-%s.pprof", p.Size, name)), []byte(text), 0o644)
}
