package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// maxProfile bounds what is taken for a profile.
const maxProfile = 64 << 20

// fetchProfile begins to record a CPU profile, as long as the load. What it
// returns waits for the profile and writes it to the file.
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
		return fmt.Errorf("%s answers %s: %s", admin, response.Status, profile)
	}
	return os.WriteFile(file, profile, 0o644)
}
