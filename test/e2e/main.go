// E2e proves on real containers what an administrator does on day one: it starts a
// real node, loads the image of Slipway, installs both charts, joins the runtime in
// each access mode, syncs an application from Git, serves it through the edge,
// upgrades the chart under traffic, measures what the runtime needs, uninstalls,
// and compares what is left with what was there before. `make e2e` runs it.
//
// It promises that each step is printed with its time, that a failure shows what
// the cluster says about it, and that the machine is as before. It needs root and
// namespaces of its own, which scripts/e2e.sh makes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		stop()
		os.Exit(1)
	}
}

// dispatch runs one of the parts: the test itself, or what it starts in containers
// and outside of the cluster.
func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: slipway-e2e run|pause|web|load")
	}
	switch args[0] {
	case "pause":
		<-ctx.Done()
		return nil
	case "web":
		return serveWeb(ctx)
	case "load":
		return sendLoad(ctx, args[1:])
	case "run":
		return runScene(ctx, args[1:])
	default:
		return fmt.Errorf("%q is none of run, pause, web and load", args[0])
	}
}

func runScene(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	s := newScene()
	flags.StringVar(&s.root, "root", ".", "folder of the repository")
	flags.StringVar(&s.work, "work", "", "empty folder for everything that is made")
	flags.DurationVar(&s.quiet, "quiet", time.Minute, "how long the idle runtime is measured")
	flags.DurationVar(&s.traffic, "traffic", 10*time.Second, "how long traffic goes on before and after the upgrade")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.work == "" {
		return errors.New("--work is missing")
	}
	// Libraries that watch the cluster complain here when a watch ends.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	return s.play(ctx)
}
