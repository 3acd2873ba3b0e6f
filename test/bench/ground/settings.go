package ground

import (
	"context"
	"flag"
	"path/filepath"
	"time"
)

// Settings are the flags of every benchmark that runs slipway with a
// development cluster.
type Settings struct {
	Slipway, Devcluster string
	Options             []string // further ones of the part that is measured
	Environment         []string // of that part
	Profile             string   // folder for profiles; empty makes none
	JSONFile            string
}

// Register defines the flags. The part is what is measured: edge or agent.
func (s *Settings) Register(flags *flag.FlagSet, part string) {
	flags.StringVar(&s.Slipway, "slipway", filepath.Join("bin", "slipway"), "the slipway program to measure")
	flags.StringVar(&s.Devcluster, "devcluster", filepath.Join("bin", "slipway-devcluster"), "the development cluster")
	ListVar(flags, &s.Options, "option", "further `option` of the "+part+", such as --log.level=debug")
	ListVar(flags, &s.Environment, "env", "`VARIABLE=value` for the "+part+", such as GOGC=50")
	flags.StringVar(&s.Profile, "profile", "", "write profiles of the "+part+" into this `folder`; they cost CPU time that is counted")
	flags.StringVar(&s.JSONFile, "json", "", "write everything that was measured to this `file` too")
}

// Wait sleeps for length, or returns the cause when ctx is done.
func Wait(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Megabytes converts to the decimal unit of reports.
func Megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
