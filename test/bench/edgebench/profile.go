package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// maxProfile bounds the size of a profile, and with it the memory for it.
const maxProfile = 64 << 20

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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	profile, err := io.ReadAll(io.LimitReader(response.Body, maxProfile))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responds with %s: %s", admin, response.Status, profile)
	}
	return os.WriteFile(file, profile, 0o644)
}
