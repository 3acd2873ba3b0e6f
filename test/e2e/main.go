// E2e runs the first day of an administrator on real containers: it starts a
// real node, loads the Slipway image, installs both charts, joins the runtime
// in each access mode, syncs an application from Git, serves it through the
// edge, upgrades the chart under traffic, measures the resource usage of the
// runtime, uninstalls, and compares the cluster with its state before. `make
// e2e` runs it.
//
// Each step is printed with its duration, a failure includes the state and logs
// of the cluster, and the host is left as it was. It needs root and namespaces
// of its own, which scripts/e2e.sh creates.
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

// main cancels the context on SIGINT and SIGTERM, so that an interrupted run
// still stops the node and removes its control groups.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		// os.Exit skips the deferred call.
		stop()
		os.Exit(1)
	}
}

// dispatch runs one subcommand: the test itself, or a program that it starts.
// The same binary is the pause image, the web image, the gateway of the mesh and
// the load generator, so one static build is all that has to be loaded.
func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: slipway-e2e run|pause|web|gateway|load")
	}
	switch args[0] {
	case "pause":
		<-ctx.Done()
		return nil
	case "web":
		return serveWeb(ctx)
	case "gateway":
		return serveGateway(ctx)
	case "load":
		return sendLoad(ctx, args[1:])
	case "run":
		return runScene(ctx, args[1:])
	default:
		return fmt.Errorf("%q is none of run, pause, web, gateway and load", args[0])
	}
}

// runScene parses the flags of the test and runs it. Both durations can be
// shortened for a quick local run.
func runScene(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	s := newScene()
	flags.StringVar(&s.root, "root", ".", "folder of the repository")
	flags.StringVar(&s.work, "work", "", "empty folder for everything that is made")
	flags.DurationVar(&s.quiet, "quiet", time.Minute, "how long the idle runtime is measured")
	flags.DurationVar(&s.traffic, "traffic", 10*time.Second, "how long traffic goes on before and after the upgrade")
	flags.StringVar(&s.only, "only", "", "part that runs after the installation, in place of the usual ones: "+partRelease)
	if err := flags.Parse(args); err != nil {
		return err
	}
	// Other parts need what the ones before them leave.
	if s.only != "" && s.only != partRelease {
		return fmt.Errorf("--only %s: want %s", s.only, partRelease)
	}
	if s.work == "" {
		return errors.New("--work is missing")
	}
	// client-go logs every watch that ends with the API server, between the
	// lines of the report.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	return s.play(ctx)
}
