package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/observe"
)

const (
	// readTimeout bounds the reading of a cluster.
	readTimeout = time.Minute
	// usualClass is the IngressClass of the shipped manifests.
	usualClass = "slipway"
)

// offline is an edge that serves nobody: it has the routes of a cluster or of
// manifests, made by the same code, and can be asked about them.
type offline struct {
	files      []string
	namespace  string
	configFile string

	options *config.Edge
	server  *edge.Server
	facts   *snapshot.Snapshot
	engine  *engine.Engine
	set     *manifest.Set // nil for a cluster
}

// flags adds what all questions have.
func (o *offline) flags(command *cobra.Command) {
	command.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "file or directory with manifests, - for the input; may be repeated")
	command.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects that name none")
	command.Flags().StringVar(&o.configFile, "config-file", "", "options of the edge, as slipway edge reads them, for its classes and what it allows")
}

// load makes the routes. Close ends it.
func (o *offline) load(ctx context.Context, input io.Reader) error {
	if err := o.readOptions(); err != nil {
		return err
	}
	points, err := entryPoints(o.options)
	if err != nil {
		return err
	}
	for i := range points {
		points[i].Address, points[i].HTTP3 = "127.0.0.1:0", false // nobody comes
	}
	o.server, err = edge.New(ctx, edge.Options{
		EntryPoints: points, MemoryLimit: overload.Limit(),
		Metrics: edge.NewMetrics(prometheus.NewRegistry(), points), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if len(o.files) == 0 {
		return o.readCluster(ctx)
	}
	return o.readManifests(input)
}

func (o *offline) close() {
	if o.server != nil {
		o.server.Close()
	}
}

func (o *offline) readOptions() error {
	sources := config.Sources{Environ: os.Environ()}
	if o.configFile != "" {
		sources.Args = []string{"--configFile=" + o.configFile}
	}
	loaded, err := config.LoadEdge(sources)
	if err != nil {
		return usageError{err}
	}
	o.options = loaded.Edge
	if o.options.Providers.KubernetesIngress == nil {
		o.options.Providers.KubernetesIngress = &config.KubernetesIngress{}
		o.options.Providers.KubernetesIngress.SetDefaults()
	}
	o.options.LastGood.Dir = ""
	if err := o.options.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

func (o *offline) readManifests(input io.Reader) error {
	set, err := manifest.Read(o.files, o.namespace, input)
	if err != nil {
		return err
	}
	o.set, o.facts = set, set.Snapshot
	o.assumeClasses()
	o.engine = engine.New(set.Snapshot, resolveOptions(o.options, ""))
	result := o.engine.All()
	feedback := ingressFeedback(o.server.Update(&result.Change))
	o.engine.NoteRules(&result.Change, feedback.Problems)
	if feedback.CertificatesChanged {
		o.engine.NoteCertificates(feedback.Certificates)
	}
	return nil
}

// assumeClasses puts the classes that every cluster with this edge has where the
// manifests leave them out. Without them no Ingress of a class would be judged.
func (o *offline) assumeClasses() {
	view := o.facts.View()
	for _, name := range []string{usualClass, o.options.Providers.KubernetesIngress.IngressClass} {
		if name == "" || view.Class(name) != nil {
			continue
		}
		class := &networkingv1.IngressClass{}
		class.Name, class.Spec.Controller = name, resolve.ControllerName
		o.facts.Put(class)
	}
}

// readCluster reads a cluster once, as an edge does at its start.
func (o *offline) readCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	facts := readBuildFacts()
	provider, err := newIngressProvider(o.options, o.server, edgeParts{
		log: slog.New(slog.DiscardHandler), metrics: observe.NewMetrics(facts.Version, facts.Commit),
	})
	if err != nil {
		return err
	}
	defer provider.cluster.Close()
	reading := make(chan error, 1)
	ended := make(chan error, 1)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() { reading <- provider.watcher.Run(following) }()
	go func() { ended <- provider.control.Run(following) }()
	select {
	case <-provider.live:
	case <-ctx.Done():
	}
	stop()
	err = errors.Join(<-ended, <-reading)
	select {
	case <-provider.live:
	default:
		if failures := provider.watcher.Failures(); len(failures) > 0 {
			err = errors.New(failureText(failures))
		}
		return fmt.Errorf("the cluster cannot be read: %w", err)
	}
	o.facts, o.engine = provider.control.Known()
	return nil
}
