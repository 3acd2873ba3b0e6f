package promotion_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// controllerArgument makes the test binary a process with a controller, which can be
// killed.
const controllerArgument = "promotion-controller"

func TestMain(m *testing.M) {
	argotest.Main(m, func(m *testing.M) {
		if len(os.Args) < 2 || os.Args[1] != controllerArgument {
			kubetest.Main(m)
			return
		}
		if err := runController(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// runController runs a controller as the agent does, until it is killed.
func runController() error {
	cluster, err := kube.ConnectAs(kube.ConnectOptions{Environ: os.Getenv}, kube.Rate(500, 1000))
	if err != nil {
		return err
	}
	folder, namespace := os.Getenv("SOURCES"), os.Getenv("NAMESPACE")
	sources, err := source.New(source.Options{Folder: folder, FetchTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	return promotion.New(promotion.Options{
		Cluster: cluster, Sources: sources, ControlNamespace: namespace, Namespaces: []string{namespace}, Interval: 100 * time.Millisecond,
		Reporter: kube.Reporter{Controller: "slipway.dev/test", Instance: "test"}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}).Run(context.Background())
}
