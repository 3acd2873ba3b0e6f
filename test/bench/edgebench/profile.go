package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// fetchProfile starts to record a CPU profile for the length of the load.
// finish waits for it to be written to file and must be called, or the
// goroutine's error is lost.
func fetchProfile(ctx context.Context, admin string, length time.Duration, file string) (finish func() error) {
	ended := make(chan error, 1)
	go func() { ended <- saveProfile(ctx, admin, length, file) }()
	return func() error {
		if err := <-ended; err != nil {
			return fmt.Errorf("CPU profile: %w", err)
		}
		return nil
	}
}

// saveProfile fetches the profile in one request, which the proxy holds open
// for the whole duration; hence the timeout of its length plus loadGrace.
func saveProfile(ctx context.Context, admin string, length time.Duration, file string) error {
	ctx, cancel := context.WithTimeout(ctx, length+loadGrace)
	defer cancel()
	address := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, int(length.Seconds()))
	profile, err := programs.Fetch(ctx, address)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(profile), 0o644)
}
