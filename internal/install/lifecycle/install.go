package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
)

// InstallOptions describe the runtime to install.
type InstallOptions struct {
	Options
	// Mode is how the platform reaches the runtime: tunnel, ingress, http-route or
	// mesh. The fields below it are for some modes only.
	Mode                              string
	Hosts                             []string
	IngressClass, IngressURL, Gateway string
	// KeyFile has the API key that the runtime joins with; CreateKey creates one.
	KeyFile   string
	CreateKey bool
	// Configuration makes it the configuration runtime of the account.
	Configuration bool
	// Print is helm or terraform to print what installs the runtime instead of
	// installing it. NoWait leaves out that Helm waits.
	Print  string
	NoWait bool
}

// ErrNoPlatform is returned for a runtime that joins a platform if none is chosen.
var ErrNoPlatform = errors.New("no platform is chosen: run slipway login URL, or name it in the values")

// Install installs a runtime, or prints what installs it. platform is nil if none is
// chosen; name is empty if the values have it.
func Install(ctx context.Context, ui UI, platform Platform, name string, options *InstallOptions) error {
	if options.Print != "" && options.Print != "helm" && options.Print != "terraform" {
		return InvalidError{fmt.Errorf("--print %q is neither helm nor terraform", options.Print)}
	}
	o := &operation{ui: ui, options: &options.Options, platform: platform}
	// Merged twice: which flags become values depends on what the files have.
	if err := o.mergeValues(nil, nil); err != nil {
		return err
	}
	if name == "" {
		name = o.name()
	}
	flags, err := options.values(ctx, o, name)
	if err != nil {
		return err
	}
	if err := o.mergeValues(nil, flags); err != nil {
		return err
	}
	if err := options.check(o); err != nil {
		return err
	}
	if options.Print != "" {
		return options.printInstall(ctx, o, flags)
	}
	return options.install(ctx, o)
}

// install installs the release. A release that was ever healthy is refused,
// because an upgrade changes it. The plan refuses one that never was, and names
// the command that removes it.
func (g *InstallOptions) install(ctx context.Context, o *operation) error {
	var err error
	if o.chart, err = g.findChart(ctx); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	defer o.close()
	current, err := o.client.Current(ctx)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: slipway preflight --only P4 prints the role that an installation needs", err)
	}
	if err != nil {
		return err
	}
	if current != nil && current.Lived {
		return fmt.Errorf("the release %s/%s is there already, in revision %d: slipway runtime upgrade %s changes it", g.Namespace, g.Release, current.Revision, o.name())
	}
	// Secrets come after the connection: an API key that is in the cluster
	// already need not be given.
	if err := g.prepareSecrets(ctx, o); err != nil {
		return err
	}
	o.unregisterOnFailure()
	o.question = fmt.Sprintf("Install the runtime %s?", o.name())
	o.done = fmt.Sprintf("The runtime %s is installed.", o.name())
	return o.run(ctx)
}

// unregisterOnFailure deletes the registration of a runtime whose installation was
// rolled back: its name would stay taken.
func (o *operation) unregisterOnFailure() {
	before := o.failed
	o.failed = func(ctx context.Context) {
		// The earlier hook comes first: it revokes the created key, which is the
		// greater risk if the rest fails.
		if before != nil {
			before(ctx)
		}
		if o.options.KeepFailed || !o.joins() {
			return
		}
		// A runtime that never registered has nothing to delete.
		if found, err := o.platform.FindRuntime(ctx, o.name()); err != nil || found == nil {
			return
		}
		// The platform refuses while it takes the runtime for online. The user
		// gets the command for later then.
		if err := o.platform.DeleteRuntime(ctx, o.name()); err != nil {
			o.ui.Note("The platform has registered the runtime: slipway runtime delete %s removes it when it is offline.", o.name())
		}
	}
}

// values returns what the flags and the platform add to the values files. Keys that
// the files have are left alone, except the name and the access mode, for which
// flags win.
func (g *InstallOptions) values(ctx context.Context, o *operation, name string) ([]handover.Value, error) {
	d := o.document
	all := []handover.Value{}
	joins := d.Flag(values.KeyPlatformEnabled)
	if joins && d.Text(values.KeyPlatformURL) == "" {
		if o.platform == nil {
			return nil, InvalidError{ErrNoPlatform}
		}
		all = append(all, handover.Value{Key: values.KeyPlatformURL, Text: o.platform.BaseURL()})
	}
	// Without an API key in the values the runtime reads it from the Secret of
	// the default name, which this operation or the user creates.
	if joins && d.Text(values.KeyToken) == "" && d.Text(values.KeyTokenRefName) == "" {
		all = append(all, handover.Value{Key: values.KeyTokenRefName, Text: release.TokenSecret}, handover.Value{Key: values.KeyTokenRefKey, Text: release.TokenKey})
	}
	all = append(all, handover.Value{Key: values.KeyRuntimeName, Text: name})
	access, err := g.accessValues()
	if err != nil {
		return nil, err
	}
	// The tunnel is named after the account, so its ID is read from the
	// platform unless the values have it or select an Ingress.
	if len(access) == 0 && joins && d.Text(values.KeyAccountID) == "" && o.platform != nil && !d.Flag(mode.KeyIngressEnabled) {
		me, err := o.platform.Me(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, handover.Value{Key: values.KeyAccountID, Text: me.GetAccount().GetId()})
	}
	all = append(all, access...)
	// The runtime verifies the platform with the same CA certificates as this
	// command, unless the values configure others.
	if joins && o.platform != nil && o.platform.CAFile() != "" && d.Text(values.KeyCARefName) == "" && !d.Flag(values.KeyCACreate) {
		all = append(all, handover.Value{Key: values.KeyCARefName, Text: release.CASecret})
	}
	if g.Configuration {
		all = append(all, configurationRuntime)
	}
	return all, nil
}

// configurationRuntime is the value that makes a runtime the configuration runtime.
var configurationRuntime = handover.Value{Key: "global.runtime.isConfigurationRuntime", Text: "true", Plain: true}

// accessValues returns the values of the access mode (R50 to R53, R123).
func (g *InstallOptions) accessValues() ([]handover.Value, error) {
	var all []handover.Value
	// list sets one value for each host, in the list syntax of --set.
	list := func(key string) {
		for i, host := range g.Hosts {
			all = append(all, handover.Value{Key: fmt.Sprintf("%s[%d]", key, i), Text: host})
		}
	}
	chosen, err := mode.Parse(g.Mode)
	switch chosen {
	case mode.Tunnel:
		// The tunnel is the chart's default and needs no values.
	case mode.Ingress:
		all = append(all, handover.Value{Key: mode.KeyIngressEnabled, Text: "true", Plain: true})
		list(mode.KeyIngressHosts)
		if g.IngressClass != "" {
			all = append(all, handover.Value{Key: mode.KeyIngressClassName, Text: g.IngressClass})
		}
	case mode.HTTPRoute:
		all = append(all, handover.Value{Key: mode.KeyHTTPRouteEnabled, Text: "true", Plain: true})
		list(mode.KeyHTTPRouteHostnames)
		// Without a namespace the Gateway is in that of the HTTPRoute, as the
		// Gateway API defines it.
		namespace, name, qualified := strings.Cut(g.Gateway, "/")
		if qualified {
			all = append(all, handover.Value{Key: mode.KeyHTTPRouteParents + "[0].namespace", Text: namespace})
		} else {
			name = g.Gateway
		}
		if name != "" {
			all = append(all, handover.Value{Key: mode.KeyHTTPRouteParents + "[0].name", Text: name})
		}
	case mode.Mesh:
		if g.IngressURL != "" {
			all = append(all, handover.Value{Key: mode.KeyIngressURL, Text: g.IngressURL})
		}
		all = append(all, handover.Value{Key: mode.KeyIngressEnabled, Text: "false", Plain: true}, handover.Value{Key: mode.KeyTunnelEnabled, Text: "false", Plain: true})
		// With a Gateway the chart brings the VirtualService.
		if g.Gateway != "" {
			all = append(all, handover.Value{Key: values.KeyMeshEnabled, Text: "true", Plain: true}, handover.Value{Key: values.KeyMeshGateway, Text: g.Gateway})
		}
	case mode.Unresolved:
		return nil, InvalidError{err}
	}
	return all, nil
}

// check refuses options that the chart would refuse, all of them at once.
func (g *InstallOptions) check(o *operation) error {
	settings, err := release.AccessSettings(o.document, g.Namespace)
	problems := []error{err}
	_, findings := mode.Resolve(settings)
	// A warning is shown at once and does not stop the installation.
	for _, found := range findings {
		// Without values of their own users know the flags only.
		if len(g.Files) == 0 && len(g.Sets) == 0 && len(g.TextSets) == 0 {
			found = mode.ByFlags(found)
		}
		if found.Severity == finding.Warning {
			o.ui.Note("warning: %s", found)
			continue
		}
		problems = append(problems, errors.New(found.String()))
	}
	for _, one := range []struct{ flag, value string }{{"namespace", g.Namespace}, {"release", g.Release}} {
		if wrong := validation.IsDNS1123Label(one.value); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("--%s %q: %s", one.flag, one.value, wrong[0]))
		}
	}
	problems = append(problems, g.unusedFlags()...)
	if joined := errors.Join(problems...); joined != nil {
		return InvalidError{joined}
	}
	return nil
}

// unusedFlags refuses options of another mode, which would have no effect.
func (g *InstallOptions) unusedFlags() []error {
	chosen, _ := mode.Parse(g.Mode) // accessValues has reported an unknown one
	var problems []error
	for _, one := range []struct {
		flag, words string
		given       bool
		modes       []mode.Mode
	}{
		{"host", "ingress and http-route", len(g.Hosts) > 0, []mode.Mode{mode.Ingress, mode.HTTPRoute}},
		{"ingress-class", "ingress", g.IngressClass != "", []mode.Mode{mode.Ingress}},
		{"gateway", "http-route and mesh", g.Gateway != "", []mode.Mode{mode.HTTPRoute, mode.Mesh}},
		{"ingress-url", "mesh", g.IngressURL != "", []mode.Mode{mode.Mesh}},
	} {
		if one.given && !slices.Contains(one.modes, chosen) {
			problems = append(problems, fmt.Errorf("--%s is for --mode %s", one.flag, one.words))
		}
	}
	return problems
}

// printInstall prints what installs the runtime: commands of Helm, or Terraform. The
// API key is in a file, and the printed text only names the file.
func (g *InstallOptions) printInstall(ctx context.Context, o *operation, flags []handover.Value) error {
	request := handover.Request{
		Release: g.Release, Namespace: g.Namespace, Chart: cmp.Or(g.Chart, release.DefaultChart), Version: g.Version, Files: g.Files, Values: flags,
		Sets: g.Sets, TextSets: g.TextSets, Wait: !g.NoWait,
	}
	if o.platform != nil && strings.HasPrefix(o.platform.BaseURL(), "http://") {
		o.ui.Note("warning: the platform is at %s, which a runtime in a cluster may not reach, and which is not encrypted.", o.platform.BaseURL())
	}
	// Helm installs the folder crds of a chart whatever the values are.
	if o.document.KeepsDefinitions() {
		o.ui.Note("Helm does not read argo-cd.crds.install. Existing CustomResourceDefinitions stay as they are; with --skip-crds it creates none.")
	}
	// Helm cannot check the name, so it is checked before anything is printed.
	if o.joins() {
		if err := o.platform.CheckName(ctx, o.name()); err != nil {
			return err
		}
	}
	if o.document.Text(values.KeyTokenRefName) == release.TokenSecret && o.joins() {
		g.KeyFile = cmp.Or(g.KeyFile, o.name()+".key")
		if err := g.prepareKeyFile(ctx, o); err != nil {
			return err
		}
		// The printed commands may run in another directory.
		file, err := filepath.Abs(g.KeyFile)
		if err != nil {
			file = g.KeyFile
		}
		request.KeyFile, request.KeySecret, request.KeyName = file, release.TokenSecret, release.TokenKey
	}
	if o.document.Text(values.KeyCARefName) == release.CASecret && o.platform != nil {
		request.CAFile, request.CASecret = o.platform.CAFile(), release.CASecret
	}
	if g.Print == "terraform" {
		return handover.Terraform(o.ui.Output(), request)
	}
	return handover.Helm(o.ui.Output(), request)
}
