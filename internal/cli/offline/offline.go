// Package offline has the flags of the commands that build the routes of manifests
// or of a cluster as an edge does, without one: lint, explain, migrate gateway,
// migrate report.
package offline

import (
	"os"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/edge/admin"
)

// Flags select the manifests or the cluster to read, and the options of the edge
// that reads them.
type Flags struct {
	Files      []string
	namespace  string
	configFile string
}

// Add adds the flags to a command.
func (f *Flags) Add(command *cobra.Command) {
	f.AddInput(command)
	command.Flags().StringVarP(&f.namespace, "namespace", "n", "default", "namespace of objects without one")
}

// AddInput adds the flags of the manifests and of the options of the edge.
func (f *Flags) AddInput(command *cobra.Command) {
	command.Flags().StringSliceVarP(&f.Files, "filename", "f", nil, "file or directory with manifests, - for the input; may be repeated")
	command.Flags().StringVar(&f.configFile, "config-file", "", "configuration file of slipway edge, for its ingress classes and permissions")
}

// Load reads the manifests or the cluster and builds the routes. A caller that
// gets no error closes the result; after an error it is closed here.
func (f *Flags) Load(command *cobra.Command) (*controller.Offline, error) {
	options, err := f.Options()
	if err != nil {
		return nil, err
	}
	judge := &controller.Offline{Files: f.Files, Namespace: f.namespace, Options: options, Build: admin.Build(buildinfo.Read())}
	if err := judge.Load(command.Context(), command.InOrStdin()); err != nil {
		judge.Close()
		return nil, err
	}
	return judge, nil
}

// Options loads the options of the edge, from the file and the environment,
// with its Ingress provider enabled. No directory is searched for a file: the
// result should depend on the command line and not on the machine.
func (f *Flags) Options() (*config.Edge, error) {
	sources := config.Sources{Environ: os.Environ()}
	if f.configFile != "" {
		sources.Args = []string{"--configFile=" + f.configFile}
	}
	loaded, err := config.LoadEdge(sources)
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	options := loaded.Edge
	// The Ingresses are for an edge whose entry points are not known. They are
	// taken for those of the chart and of the manifests in deploy/.
	if web, single := options.EntryPoints["web"]; f.configFile == "" && single && len(options.EntryPoints) == 1 && !web.HTTP.TLS {
		web.Address, web.HTTP.TLS = ":8443", true
		options.EntryPoints["websecure"] = web
	}
	// The options may be those of an edge with the file provider alone.
	if options.Providers.KubernetesIngress == nil {
		options.Providers.KubernetesIngress = &config.KubernetesIngress{}
		options.Providers.KubernetesIngress.SetDefaults()
	}
	// The last good table would hide a problem of the current objects.
	options.LastGood.Dir = ""
	if err := options.Validate(); err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return options, nil
}
