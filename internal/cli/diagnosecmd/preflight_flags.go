package diagnosecmd

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/install/crds"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
)

// preflightFlags describe the planned installation, and select the checks.
// Flags that need no conversion are bound to the embedded Options directly;
// open converts the rest.
type preflightFlags struct {
	choice apiclient.Choice
	local  kube.UserChoice

	mode, stage, provider string
	hosts, only, skip     []string
	class, url, protocol  string
	gateways, tlsSecrets  []string
	account, caFile       string
	helm, repository      string
	gitFlags
	fix, yes, single bool
	preflight.Options
}

// gitFlags are those of the Git checks.
type gitFlags struct {
	gitToken, gitUser, gitCA, gitKind, gitAPI string
}

// add adds the flags to the command. The defaults are those of the chart, so
// that a preflight without flags checks a default installation.
func (f *preflightFlags) add(command *cobra.Command) {
	f.choice.AddFlags(command.Flags())
	flags := command.Flags()
	kubeflags.Add(command.Flags(), &f.local)
	flags.StringVar(&f.stage, "stage", string(preflight.Before), "stage of the installation: before or after")
	flags.StringVar(&f.mode, "mode", "tunnel", "how the runtime is reached: tunnel, ingress, http-route or mesh")
	flags.StringArrayVar(&f.hosts, "host", nil, "host of the runtime; may be repeated")
	flags.StringVar(&f.class, "ingress-class", "", "IngressClass, for --mode ingress")
	// class is a hidden alias of ingress-class.
	flags.StringVar(&f.class, "class", "", "")
	_ = flags.MarkHidden("class") // it is there
	flags.StringVar(&f.protocol, "protocol", "", "protocol of the host: https (default) or http")
	flags.StringVar(&f.url, "ingress-url", "", "URL of the runtime in a mesh (default https://HOST)")
	flags.StringArrayVar(&f.gateways, "gateway", nil, "Gateway, as name or namespace/name, for --mode http-route and mesh; may be repeated")
	flags.StringArrayVar(&f.tlsSecrets, "tls-secret", nil, "Secret with the certificate of the hosts, for --mode ingress; may be repeated")
	flags.StringVarP(&f.Settings.Namespace, "namespace", "n", release.DefaultNamespace, "namespace of the runtime")
	flags.StringVar(&f.Settings.Runtime, "runtime", release.DefaultRuntime, "name of the runtime")
	flags.StringVar(&f.Release, "release", release.DefaultName, "name of the Helm release")
	flags.StringVar(&f.account, "account", "", "id of the account, as in global.platform.accountId")
	flags.BoolVar(&f.single, "single-namespace", false, "the runtime is limited to its namespace")
	flags.StringVar(&f.helm, "helm-version", "", "version of Helm to install with (default the library of this program)")
	flags.StringVar(&f.Token.SecretName, "token-secret", "", "Secret with the API key, in the namespace of the runtime")
	flags.StringVar(&f.Token.SecretKey, "token-key", release.TokenKey, "key in that Secret")
	flags.StringVar(&f.ControllerNamespace, "controller-namespace", "", "namespace of the Ingress controller (default all are searched)")
	flags.StringVar(&f.provider, "provider", "", "where the cluster runs, such as aws or gke (default: detected from its nodes)")
	flags.StringArrayVar(&f.Registries, "registry", nil, "host of a registry with images of the runtime; may be repeated")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM file with CA certificates that verify the host, in addition to the system's")
	flags.DurationVar(&f.StatusWait, "status-wait", 20*time.Second, "time for the Ingress to get its address after the installation")
	f.addGit(command)
	flags.StringSliceVar(&f.only, "only", nil, "checks to run, such as P16,P21 or tls-cert")
	flags.StringSliceVar(&f.skip, "skip", nil, "checks to skip")
	flags.BoolVar(&f.fix, "fix", false, "make the possible repairs, after showing them")
	flags.BoolVarP(&f.yes, "yes", "y", false, "repair without confirmation")
}

// addGit adds the flags of the Git checks. The token comes from a file or
// standard input and never from the command line.
func (f *preflightFlags) addGit(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.repository, "shared-repository", "", "Shared Configuration Repository, <repository>.git[/<path>][?ref=<branch>]")
	flags.StringVar(&f.gitToken, "git-token-file", "", "file with the Git token of the runtime; - is standard input")
	flags.StringVar(&f.gitUser, "git-username", "", "user name for the Git token, if the provider requires one")
	flags.StringVar(&f.gitCA, "git-ca-file", "", "PEM file with CA certificates that verify the Git server")
	flags.StringVar(&f.gitKind, "git-provider", "", "Git provider: github, gitlab, bitbucket, bitbucket-server, or git for another server (default: inferred from the repository)")
	flags.StringVar(&f.gitAPI, "git-api-url", "", "URL of the API of the Git provider (default: inferred from the repository)")
}

// open connects to the systems that the checks inspect, and converts the flags.
// The function that it returns closes the connections; it is never nil. All
// wrong flags are reported at once. A platform is optional: its checks are
// skipped without one.
func (f *preflightFlags) open(command *cobra.Command) (preflight.World, preflight.Options, func(), error) {
	nothing := func() {}
	options, err := f.options()
	if err != nil {
		return preflight.World{}, options, nothing, exit.UsageError{Err: err}
	}
	// Injected, because internal/preflight does not import the code that
	// installs CRDs.
	world := preflight.World{Adoption: func(live *metav1.PartialObjectMetadata, release, namespace string) ([]byte, error) {
		return crds.AdoptionOf(live, crds.Place{Name: release, Namespace: namespace})
	}}
	if world.Roots, err = files.HostAuthorities(f.caFile); err != nil {
		return world, options, nothing, exit.UsageError{Err: err}
	}
	if err := f.git(command, &world, &options); err != nil {
		return world, options, nothing, err
	}
	// Without a platform its checks are skipped; a wrong context is an error.
	client, err := f.choice.Open()
	switch {
	case err == nil:
		world.Platform = client.ForPreflight()
	case !errors.Is(err, apiclient.ErrNoPlatform):
		return world, options, nothing, err
	}
	if world.Cluster, err = kubeflags.Connect(f.local); err != nil {
		return world, options, nothing, err
	}
	closeWorld := func() {
		world.Cluster.Close()
		if client != nil {
			client.Close()
		}
	}
	if err := f.describe(command, &world, &options); err != nil {
		closeWorld()
		return world, options, nothing, err
	}
	return world, options, closeWorld, nil
}

// describe completes the options with the objects of the chart, and after the
// installation with everything that the release has and no flag gives.
func (f *preflightFlags) describe(command *cobra.Command, world *preflight.World, options *preflight.Options) error {
	platform := "https://slipway.example.com" // only the objects of the chart count
	if world.Platform != nil {
		platform = world.Platform.URL
	}
	var given map[string]any
	if options.Stage == preflight.After {
		var err error
		if given, err = f.fromRelease(command, world, options); err != nil {
			return err
		}
	}
	if given == nil {
		options.ByFlags = true
		given = release.AccessValues(options.Settings, platform)
		if err := handover.MergeSets(given, []string{values.KeySingleNamespace + "=" + strconv.FormatBool(f.single)}, nil); err != nil {
			return err
		}
	}
	archive, err := charts.Archive(charts.Runtime)
	if err != nil {
		return err
	}
	chart, err := release.ReadChart(archive)
	if err != nil {
		return err
	}
	// Settings that the chart refuses are reported by P13, and the checks of
	// its objects are skipped.
	options.Objects, _ = chart.Objects(command.Context(), release.Place{Release: options.Release, Namespace: options.Settings.Namespace}, given)
	return nil
}

// options converts the flags to options of the checks. It collects all
// problems; errors.Join drops the nil ones of values that parsed.
func (f *preflightFlags) options() (preflight.Options, error) {
	var problems []error
	options := f.Options
	options.HelmVersion, options.Settings.AccountID = f.helm, f.account
	options.Git.Repository, options.Git.Username = f.repository, f.gitUser
	switch stage := preflight.Stage(f.stage); stage {
	case preflight.Before, preflight.After:
		options.Stage = stage
	default:
		problems = append(problems, fmt.Errorf("--stage %q is neither before nor after", f.stage))
	}
	if f.provider != "" {
		provider, err := preflight.ParseProvider(f.provider)
		problems = append(problems, err)
		options.Provider = provider
	}
	// Names and codes are both accepted. All are parsed, so that all unknown
	// ones are reported.
	codes := func(names []string) []preflight.Code {
		var all []preflight.Code
		for _, name := range names {
			code, err := preflight.ParseCode(strings.TrimSpace(name))
			problems = append(problems, err)
			all = append(all, code)
		}
		return all
	}
	options.Only, options.Skip = codes(f.only), codes(f.skip)
	problems = append(problems, f.accessMode(&options))
	return options, errors.Join(problems...)
}

// accessMode converts the flags of the access mode into the settings of the
// chart, so that the checks see the same values as an installation. Flags of
// other modes are ignored.
func (f *preflightFlags) accessMode(options *preflight.Options) error {
	off := false
	settings := &options.Settings
	chosen, err := mode.Parse(f.mode)
	switch chosen {
	case mode.Unresolved:
		return err
	case mode.Tunnel:
		// The default of the chart: nothing to set.
	case mode.Ingress:
		settings.Ingress = mode.IngressSettings{Enabled: true, Hosts: f.hosts, ClassName: f.class, Protocol: f.protocol}
		for _, name := range f.tlsSecrets {
			settings.Ingress.TLS = append(settings.Ingress.TLS, mode.IngressTLS{Hosts: f.hosts, SecretName: name})
		}
	case mode.HTTPRoute:
		settings.HTTPRoute = mode.HTTPRouteSettings{Enabled: true, Hostnames: f.hosts, Protocol: f.protocol}
		for _, gateway := range f.gateways {
			namespace, name, qualified := strings.Cut(gateway, "/")
			// An empty namespace is that of the runtime, as in the Gateway API.
			if !qualified {
				namespace, name = "", gateway
			}
			settings.HTTPRoute.ParentRefs = append(settings.HTTPRoute.ParentRefs, mode.ParentRef{Namespace: namespace, Name: name})
		}
	case mode.Mesh:
		// Mesh is the mode with the tunnel disabled and a URL that is served by
		// other means.
		settings.TunnelEnabled, settings.IngressURL = &off, f.url
		// A mesh has one URL; further hosts are ignored.
		if f.url == "" && len(f.hosts) > 0 {
			settings.IngressURL = cmp.Or(f.protocol, "https") + "://" + f.hosts[0]
		}
		if len(f.gateways) > 0 {
			options.Gateway = f.gateways[0]
		}
	}
	return nil
}

// git prepares the checks of the Git provider. Without a token they are
// skipped, but a wrong CA file is still an error.
func (f *preflightFlags) git(command *cobra.Command, world *preflight.World, options *preflight.Options) error {
	authorities, err := files.ReadAuthorities(f.gitCA)
	if err != nil {
		return exit.UsageError{Err: fmt.Errorf("the authorities of the Git server: %w", err)}
	}
	options.Git.CAs = authorities
	if f.gitToken == "" {
		return nil
	}
	token, err := prompt.ReadSecret(command, f.gitToken, "the Git token")
	if err != nil {
		return err
	}
	options.Git.Token = token
	world.GitProvider, err = f.gitProvider(authorities, token)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	return nil
}

// gitProvider returns the client of the Git provider. Cloud providers are
// inferred from the repository; --git-provider wins and also drops the inferred
// API, which would be that of another provider.
func (f *preflightFlags) gitProvider(authorities []byte, token secret.Text) (gitprovider.Provider, error) {
	kind, api, known := gitprovider.Infer(f.repository)
	if f.gitKind != "" {
		kind, known = gitprovider.Kind(f.gitKind), true
		api = ""
	}
	if !known {
		return nil, errors.New("the Git provider does not follow from --shared-repository: give --git-provider and --git-api-url")
	}
	return gitprovider.New(gitprovider.Options{
		Kind: kind, APIURL: cmp.Or(f.gitAPI, api), Token: token, Username: f.gitUser, Repository: f.repository, CAs: authorities,
	})
}
