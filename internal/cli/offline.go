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
	"slipway.dev/slipway/internal/edge/admin"
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
	// files are manifests; without any a cluster is read.
	files     []string
	namespace string
	options   *config.Edge
	build     admin.Build

	server *edge.Server
	facts  *snapshot.Snapshot
	engine *engine.Engine
	set    *manifest.Set // nil for a cluster
}

// offlineFlags choose what is read, and the options of the edge that reads it.
type offlineFlags struct {
	files      []string
	namespace  string
	configFile string
}

// add adds the flags.
func (f *offlineFlags) add(command *cobra.Command) {
	command.Flags().StringSliceVarP(&f.files, "filename", "f", nil, "file or directory with manifests, - for the input; may be repeated")
	command.Flags().StringVarP(&f.namespace, "namespace", "n", "default", "namespace of objects that name none")
	command.Flags().StringVar(&f.configFile, "config-file", "", "options of the edge, as slipway edge reads them, for its classes and what it allows")
}

// load makes the routes that the flags ask for. Who gets no error closes them.
func (f *offlineFlags) load(command *cobra.Command) (*offline, error) {
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	judge := &offline{files: f.files, namespace: f.namespace, options: options, build: admin.Build(readBuildFacts())}
	if err := judge.load(command.Context(), command.InOrStdin()); err != nil {
		judge.close()
		return nil, err
	}
	return judge, nil
}

// load makes the routes. Close ends it.
func (o *offline) load(ctx context.Context, input io.Reader) error {
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

// options loads the options of the edge, with its Ingress provider turned on.
func (f *offlineFlags) options() (*config.Edge, error) {
	sources := config.Sources{Environ: os.Environ()}
	if f.configFile != "" {
		sources.Args = []string{"--configFile=" + f.configFile}
	}
	loaded, err := config.LoadEdge(sources)
	if err != nil {
		return nil, usageError{err}
	}
	options := loaded.Edge
	if options.Providers.KubernetesIngress == nil {
		options.Providers.KubernetesIngress = &config.KubernetesIngress{}
		options.Providers.KubernetesIngress.SetDefaults()
	}
	options.LastGood.Dir = ""
	if err := options.Validate(); err != nil {
		return nil, usageError{err}
	}
	return options, nil
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
	provider, err := newIngressProvider(o.options, o.server, edgeParts{
		log: slog.New(slog.DiscardHandler), metrics: observe.NewMetrics(o.build.Version, o.build.Commit), version: o.build.Version,
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
