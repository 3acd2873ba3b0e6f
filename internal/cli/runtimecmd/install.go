package runtimecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// installFlags say what is to be installed.
type installFlags struct {
	releaseFlags
	mode                              string
	hosts                             []string
	ingressClass, ingressURL, gateway string
	keyFile                           string
	createKey, configuration, noWait  bool
	print                             string
}

// runtimeInstallCommand installs a runtime, or prints how (R49 to R53, R76).
func runtimeInstallCommand(choice *apiclient.Choice) *cobra.Command {
	given := &installFlags{}
	command := &cobra.Command{
		Use:   "install [NAME]",
		Short: "Install a runtime in a cluster, or print what installs it",
		Long: `Installs a runtime with Helm's library: it checks the values as slipway helm validate
does, runs the checks of slipway preflight, shows what it will create, asks, installs,
says what it waits for, and ends when the runtime is online at the platform. What is
not healthy within --timeout is taken back, with the reason. The release is one of
Helm: helm list shows it.

The values are those of the files, then those of the flags, then those of --set. The
API key that the runtime joins with goes into a Secret, and never into a command line
or the values: --create-key makes one that registers runtimes only and is good for a
day, --key-file takes one from a file, and a Secret slipway-user-token that is there
already is used.

With --print helm or --print terraform nothing is installed: what is printed installs
the same. A key that is made then goes to a new file.`,
		Example: `  slipway runtime install prod --create-key
  slipway runtime install prod --create-key --mode ingress --host prod.example.com --ingress-class nginx
  slipway runtime install prod --create-key -f values.yaml --dry-run --output-values -
  slipway runtime install prod --key-file key.txt --mode mesh --ingress-url https://prod.example.com --print terraform`,
		Args: cobra.MaximumNArgs(1),
	}
	given.add(command)
	flags := command.Flags()
	flags.StringVar(&given.mode, "mode", "tunnel", "how the platform reaches it: tunnel, ingress, http-route or mesh")
	flags.StringArrayVar(&given.hosts, "host", nil, "host of an Ingress or HTTPRoute; may be repeated")
	flags.StringVar(&given.ingressClass, "ingress-class", "", "class of the Ingress")
	flags.StringVar(&given.gateway, "gateway", "", "Gateway of an HTTPRoute, as name or namespace/name")
	flags.StringVar(&given.ingressURL, "ingress-url", "", "URL of the runtime in a service mesh")
	flags.BoolVar(&given.createKey, "create-key", false, "make an API key for the installation")
	flags.StringVar(&given.keyFile, "key-file", "", "file with the API key (with --print default NAME.key)")
	flags.BoolVar(&given.configuration, "configuration-runtime", false, "make it the configuration runtime of the account")
	flags.BoolVar(&given.noWait, "no-wait", false, "with --print: do not have Helm wait")
	flags.StringVar(&given.print, "print", "", "print what installs it, and install nothing: helm or terraform")
	command.RunE = func(command *cobra.Command, args []string) error {
		client, err := apiclient.OpenOptional(choice)
		if err != nil {
			return err
		}
		if client != nil {
			defer client.Close()
		}
		return runInstall(command, client, args, given)
	}
	return command
}

func runInstall(command *cobra.Command, client *apiclient.Client, args []string, given *installFlags) error {
	if given.print != "" && given.print != "helm" && given.print != "terraform" {
		return exit.UsageError{Err: fmt.Errorf("--print %q is neither helm nor terraform", given.print)}
	}
	o := &operation{command: command, given: &given.releaseFlags, platform: client}
	if err := o.settle(nil, nil); err != nil {
		return err
	}
	name := o.name()
	if len(args) == 1 {
		name = args[0]
	}
	flags, err := given.values(o, name)
	if err != nil {
		return err
	}
	if err := o.settle(nil, flags); err != nil {
		return err
	}
	if err := given.check(o); err != nil {
		return err
	}
	if given.print != "" {
		return given.printInstall(o, flags)
	}
	return given.install(o)
}

// install does it.
func (g *installFlags) install(o *operation) error {
	ctx := o.command.Context()
	var err error
	if o.chart, err = g.findChart(ctx); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	defer o.close()
	current, err := o.client.Current(ctx)
	if err != nil {
		return err
	}
	if current != nil && current.Lived {
		return fmt.Errorf("the release %s/%s is there already, in revision %d: slipway runtime upgrade %s changes it", g.namespace, g.release, current.Revision, o.name())
	}
	if err := g.useKey(o); err != nil {
		return err
	}
	o.forgetFailed()
	o.question = fmt.Sprintf("Install the runtime %s?", printer.Printable(o.name()))
	o.done = fmt.Sprintf("The runtime %s is installed.", o.name())
	return o.run()
}

// forgetFailed has the platform forget a runtime that registered in an installation
// that was taken back: its name would stay taken.
func (o *operation) forgetFailed() {
	before := o.failed
	o.failed = func(ctx context.Context) {
		if before != nil {
			before(ctx)
		}
		if o.given.keepFailed || !o.joins() {
			return
		}
		if found, err := o.platform.FindRuntime(ctx, o.name()); err != nil || found == nil {
			return
		}
		_, err := apiclient.Call(ctx, o.platform, o.platform.Runtimes().DeleteRuntime, &platformv1.DeleteRuntimeRequest{Name: o.name()})
		if err != nil {
			printer.Note(o.command, "The platform knows the runtime: slipway runtime delete %s has it forgotten when it is offline.", o.name())
		}
	}
}

// values are those of the flags and of the platform, unless the files have them.
func (g *installFlags) values(o *operation, name string) ([]handover.Value, error) {
	d := o.document
	all := []handover.Value{}
	joins := d.Flag(values.KeyPlatformEnabled)
	if joins && d.Text(values.KeyPlatformURL) == "" {
		if o.platform == nil {
			return nil, exit.UsageError{Err: apiclient.ErrNoPlatform}
		}
		all = append(all, handover.Value{Key: values.KeyPlatformURL, Text: o.platform.BaseURL()})
	}
	if joins && d.Text(values.KeyToken) == "" && d.Text(values.KeyTokenRefName) == "" {
		all = append(all, handover.Value{Key: values.KeyTokenRefName, Text: release.TokenSecret}, handover.Value{Key: values.KeyTokenRefKey, Text: release.TokenKey})
	}
	all = append(all, handover.Value{Key: values.KeyRuntimeName, Text: name})
	reached, err := g.accessValues()
	if err != nil {
		return nil, err
	}
	if g.mode == "tunnel" && joins && d.Text(values.KeyAccountID) == "" && o.platform != nil && !d.Flag(mode.KeyIngressEnabled) {
		me, err := apiclient.Call(o.command.Context(), o.platform, o.platform.Auth().Me, &platformv1.MeRequest{})
		if err != nil {
			return nil, err
		}
		all = append(all, handover.Value{Key: values.KeyAccountID, Text: me.GetAccount().GetId()})
	}
	all = append(all, reached...)
	if joins && o.platform != nil && o.platform.CAFile != "" && d.Text(values.KeyCARefName) == "" && !d.Flag(values.KeyCACreate) {
		all = append(all, handover.Value{Key: values.KeyCARefName, Text: release.CASecret})
	}
	if g.configuration {
		all = append(all, handover.Value{Key: "global.runtime.isConfigurationRuntime", Text: "true", Plain: true})
	}
	return all, nil
}

// accessValues are those of the mode (R50 to R53, R123).
func (g *installFlags) accessValues() ([]handover.Value, error) {
	var all []handover.Value
	list := func(key string) {
		for i, host := range g.hosts {
			all = append(all, handover.Value{Key: fmt.Sprintf("%s[%d]", key, i), Text: host})
		}
	}
	switch g.mode {
	case "tunnel":
	case "ingress":
		all = append(all, handover.Value{Key: mode.KeyIngressEnabled, Text: "true", Plain: true})
		list(mode.KeyIngressHosts)
		if g.ingressClass != "" {
			all = append(all, handover.Value{Key: mode.KeyIngressClassName, Text: g.ingressClass})
		}
	case "http-route":
		all = append(all, handover.Value{Key: mode.KeyHTTPRouteEnabled, Text: "true", Plain: true})
		list(mode.KeyHTTPRouteHostnames)
		namespace, name, qualified := strings.Cut(g.gateway, "/")
		if qualified {
			all = append(all, handover.Value{Key: mode.KeyHTTPRouteParents + "[0].namespace", Text: namespace})
		} else {
			name = g.gateway
		}
		if name != "" {
			all = append(all, handover.Value{Key: mode.KeyHTTPRouteParents + "[0].name", Text: name})
		}
	case "mesh":
		if g.ingressURL != "" {
			all = append(all, handover.Value{Key: mode.KeyIngressURL, Text: g.ingressURL})
		}
		all = append(all, handover.Value{Key: mode.KeyIngressEnabled, Text: "false", Plain: true}, handover.Value{Key: mode.KeyTunnelEnabled, Text: "false", Plain: true})
	default:
		return nil, exit.UsageError{Err: fmt.Errorf("--mode %q is not known: choose tunnel, ingress, http-route or mesh", g.mode)}
	}
	return all, nil
}

// check refuses flags that the chart would refuse, all of them at once.
func (g *installFlags) check(o *operation) error {
	settings, err := release.AccessSettings(o.document, g.namespace)
	problems := []error{err}
	_, findings := mode.Resolve(settings)
	for _, finding := range findings {
		if finding.Warning {
			printer.Note(o.command, "warning: %s", finding.String())
			continue
		}
		problems = append(problems, errors.New(finding.String()))
	}
	for _, one := range []struct{ flag, value string }{{"namespace", g.namespace}, {"release", g.release}} {
		if wrong := validation.IsDNS1123Label(one.value); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("--%s %q: %s", one.flag, one.value, wrong[0]))
		}
	}
	for _, one := range []struct {
		flag, modes string
		given       bool
	}{
		{"host", "ingress http-route", len(g.hosts) > 0}, {"ingress-class", "ingress", g.ingressClass != ""},
		{"gateway", "http-route", g.gateway != ""}, {"ingress-url", "mesh", g.ingressURL != ""},
	} {
		if one.given && !slices.Contains(strings.Fields(one.modes), g.mode) {
			problems = append(problems, fmt.Errorf("--%s is for --mode %s", one.flag, strings.ReplaceAll(one.modes, " ", " and ")))
		}
	}
	if joined := errors.Join(problems...); joined != nil {
		return exit.UsageError{Err: joined}
	}
	return nil
}

// printInstall prints what installs the runtime.
func (g *installFlags) printInstall(o *operation, flags []handover.Value) error {
	request := handover.Request{
		Release: g.release, Namespace: g.namespace, Chart: cmp.Or(g.chart, release.DefaultChart), Version: g.version, Files: g.files, Values: flags,
		Sets: g.sets, TextSets: g.textSets, Wait: !g.noWait,
	}
	if o.platform != nil && o.platform.Address.Scheme == "http" {
		printer.Note(o.command, "warning: the platform is at %s, which a runtime in a cluster may not reach, and which nobody encrypts.", o.platform.BaseURL())
	}
	if o.joins() {
		if err := o.platform.CheckName(o.command, o.name()); err != nil {
			return err
		}
	}
	if o.document.Text(values.KeyTokenRefName) == release.TokenSecret && o.joins() {
		g.keyFile = cmp.Or(g.keyFile, o.name()+".key")
		if err := g.prepareKeyFile(o.command, o.platform, o.name()); err != nil {
			return err
		}
		file, err := filepath.Abs(g.keyFile)
		if err != nil {
			file = g.keyFile
		}
		request.KeyFile, request.KeySecret, request.KeyName = file, release.TokenSecret, release.TokenKey
	}
	if o.document.Text(values.KeyCARefName) == release.CASecret && o.platform != nil {
		request.CAFile, request.CASecret = o.platform.CAFile, release.CASecret
	}
	if g.print == "terraform" {
		return handover.Terraform(o.command.OutOrStdout(), request)
	}
	return handover.Helm(o.command.OutOrStdout(), request)
}

// useKey has the Secrets made that the values name: the API key and the authorities
// of the platform.
func (g *installFlags) useKey(o *operation) error {
	o.standIn = map[string]map[string]secret.Text{}
	if o.document.Text(values.KeyCARefName) == release.CASecret && o.platform != nil && o.platform.CAFile != "" {
		authorities, err := files.ReadAuthorities(o.platform.CAFile)
		if err != nil {
			return exit.UsageError{Err: fmt.Errorf("the authorities of the platform: %w", err)}
		}
		o.makeSecret(release.CASecret, release.CAKey, secret.New(string(authorities)))
	}
	if !o.document.Flag(values.KeyPlatformEnabled) || o.document.Text(values.KeyToken) != "" {
		return nil
	}
	name, key := o.document.Text(values.KeyTokenRefName), o.document.Text(values.KeyTokenRefKey)
	switch {
	case g.keyFile != "" && g.createKey:
		return exit.UsageError{Err: errors.New("--key-file and --create-key do not go together here: keep one of them")}
	case g.createKey:
		return g.makeKey(o, name, key)
	case g.keyFile != "":
		text, err := prompt.ReadSecret(o.command, g.keyFile, "the API key")
		if err != nil {
			return err
		}
		if o.platform != nil {
			if err := checkInstallKey(o.command, o.platform, text); err != nil {
				return err
			}
		}
		o.makeSecret(name, key, text)
		return nil
	}
	if name != release.TokenSecret {
		return nil // validation says when it is missing
	}
	if _, err := o.secretThere(name, key); err != nil {
		return exit.UsageError{Err: fmt.Errorf("there is no API key in the Secret %s/%s: make one with --create-key, or name its file with --key-file", g.namespace, name)}
	}
	return nil
}

// makeSecret has a Secret made with the release.
func (o *operation) makeSecret(name, key string, text secret.Text) map[string]secret.Text {
	data := map[string]secret.Text{key: text}
	o.secrets = append(o.secrets, release.Secret{Name: name, Data: data})
	o.standIn[name] = map[string]secret.Text{key: text}
	return data
}

// makeKey has a key made when somebody has agreed. Until then that of the person
// stands for it: it is an admin's as well.
func (g *installFlags) makeKey(o *operation, name, key string) error {
	if o.platform == nil {
		return exit.UsageError{Err: errors.New("--create-key asks the platform for a key, and none is chosen: run slipway login URL")}
	}
	data := o.makeSecret(name, key, o.platform.Key)
	id := ""
	o.confirmed = func(ctx context.Context) error {
		made, err := o.platform.CreateInstallKey(ctx, o.name())
		if err != nil {
			return err
		}
		id, data[key] = made.GetKey().GetId(), secret.New(made.GetSecret())
		return nil
	}
	o.failed = func(ctx context.Context) {
		if g.keepFailed || id == "" {
			return
		}
		if err := o.platform.RevokeKey(ctx, id); err != nil {
			printer.Note(o.command, "The key that was made for it is still good: %s", err.Error())
		}
	}
	return nil
}
