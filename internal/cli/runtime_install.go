package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// What an installation is called when nobody says otherwise.
const (
	defaultChart     = "oci://charts.slipway.dev/gitops-runtime"
	defaultRelease   = "slipway-runtime"
	defaultNamespace = "slipway"
	defaultRuntime   = "slipway"
	// keySecretName is the Secret that the chart reads the API key from.
	keySecretName = "slipway-user-token"
	// caSecretName is the Secret with the authorities of the platform.
	caSecretName = "slipway-platform-ca"
)

// installKeyLife is how long a key that is made for an installation is good.
const installKeyLife = loginKeyLife / 90

// installFlags say what is to be installed.
type installFlags struct {
	mode, namespace, release, chart, version string
	hosts                                    []string
	ingressClass, ingressURL, gateway        string
	keyFile                                  string
	createKey, configuration, noWait         bool
	form                                     string
	// caFile is that of the context.
	caFile string
}

// runtimeInstallCommand prints how a runtime is installed (R49 to R52, R76).
func runtimeInstallCommand(choice *platformChoice) *cobra.Command {
	given := &installFlags{}
	command := &cobra.Command{
		Use:   "install [NAME]",
		Short: "Print what installs a runtime: commands for kubectl and Helm, or Terraform",
		Long: `Checks the name of a new runtime and how it is to be reached, and prints what
installs it. Nothing is installed. The API key that the runtime joins with goes from
a file into a Secret, and never into a command line: --create-key makes one for
registering runtimes only, which is good for a day, and writes it to a new file.`,
		Example: `  slipway runtime install prod --create-key
  slipway runtime install prod --key-file key.txt --mode ingress --host prod.example.com --ingress-class nginx
  slipway runtime install prod --key-file key.txt --mode mesh --ingress-url https://prod.example.com --format terraform`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.mode, "mode", "tunnel", "how the platform reaches it: tunnel, ingress, http-route or mesh")
	flags.StringArrayVar(&given.hosts, "host", nil, "host of an Ingress or HTTPRoute; may be repeated")
	flags.StringVar(&given.ingressClass, "ingress-class", "", "class of the Ingress")
	flags.StringVar(&given.gateway, "gateway", "", "Gateway of an HTTPRoute, as name or namespace/name")
	flags.StringVar(&given.ingressURL, "ingress-url", "", "URL of the runtime in a service mesh")
	flags.StringVarP(&given.namespace, "namespace", "n", defaultNamespace, "namespace to install to")
	flags.StringVar(&given.release, "release", defaultRelease, "name of the Helm release")
	flags.StringVar(&given.chart, "chart", defaultChart, "where the chart is")
	flags.StringVar(&given.version, "chart-version", "", "version of the chart (default the newest)")
	flags.BoolVar(&given.createKey, "create-key", false, "make an API key for the installation, and write it to the key file")
	flags.StringVar(&given.keyFile, "key-file", "", "file with the API key (default NAME.key)")
	flags.BoolVar(&given.configuration, "configuration-runtime", false, "make it the configuration runtime of the account")
	flags.BoolVar(&given.noWait, "no-wait", false, "do not have Helm wait")
	flags.StringVar(&given.form, "format", "helm", "what to print: helm or terraform")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		name := defaultRuntime
		if len(args) == 1 {
			name = args[0]
		}
		return printInstall(command, client, name, given)
	})
	return command
}

func printInstall(command *cobra.Command, client *platformClient, name string, given *installFlags) error {
	if given.form != "helm" && given.form != "terraform" {
		return usageError{fmt.Errorf("--format %q is neither helm nor terraform", given.form)}
	}
	me, err := ask(command.Context(), client, client.auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return err
	}
	given.caFile = client.CAFile
	if client.address.Scheme == "http" {
		note(command, "warning: the platform is at %s, which a runtime in a cluster may not reach, and which nobody encrypts.", client.base())
	}
	values, err := given.values(command, name, client.base(), me.GetAccount().GetId())
	if err != nil {
		return err
	}
	if err := client.freeName(command, name); err != nil {
		return err
	}
	given.keyFile = cmp.Or(given.keyFile, name+".key")
	if err := given.prepareKey(command, client, name, me.GetAccount().GetId()); err != nil {
		return err
	}
	if given.form == "terraform" {
		return printTerraform(command.OutOrStdout(), given, values)
	}
	return printHelm(command.OutOrStdout(), given, values)
}

// chartValue is a value of the chart.
type chartValue struct {
	key, value string
	// plain is a value that is no text: true and false.
	plain bool
}

// values are those of the documented commands, after a check.
func (g *installFlags) values(command *cobra.Command, name, platform, account string) ([]chartValue, error) {
	settings := mode.Settings{Runtime: name, AccountID: account, IngressURL: g.ingressURL}
	off := false
	values := []chartValue{
		{"global.platform.url", platform, false},
		{"global.platform.userToken.secretKeyRef.name", keySecretName, false},
		{"global.platform.userToken.secretKeyRef.key", keyOfToken, false},
		{"global.runtime.name", name, false},
	}
	switch g.mode {
	case "tunnel":
		values = append(values, chartValue{"global.platform.accountId", account, false})
	case "ingress":
		settings.Ingress.Enabled, settings.Ingress.Hosts, settings.Ingress.ClassName = true, g.hosts, g.ingressClass
		values = append(values, chartValue{"global.runtime.ingress.enabled", "true", true})
		for i, host := range g.hosts {
			values = append(values, chartValue{fmt.Sprintf("global.runtime.ingress.hosts[%d]", i), host, false})
		}
		values = append(values, chartValue{"global.runtime.ingress.className", g.ingressClass, false})
	case "http-route":
		values = append(values, g.routeValues(&settings)...)
	case "mesh":
		settings.TunnelEnabled = &off
		values = append(values, chartValue{"global.runtime.ingressUrl", g.ingressURL, false},
			chartValue{"global.runtime.ingress.enabled", "false", true}, chartValue{"tunnel-client.enabled", "false", true})
	default:
		return nil, usageError{fmt.Errorf("--mode %q is not known: choose tunnel, ingress, http-route or mesh", g.mode)}
	}
	if g.caFile != "" {
		values = append(values, chartValue{"global.platform.tls.caCerts.secretKeyRef.name", caSecretName, false})
	}
	if g.configuration {
		values = append(values, chartValue{"global.runtime.isConfigurationRuntime", "true", true})
	}
	return values, g.check(command, settings)
}

// routeValues are those of an HTTPRoute (R123).
func (g *installFlags) routeValues(settings *mode.Settings) []chartValue {
	settings.HTTPRoute.Enabled, settings.HTTPRoute.Hostnames = true, g.hosts
	values := []chartValue{{"global.runtime.httpRoute.enabled", "true", true}}
	for i, host := range g.hosts {
		values = append(values, chartValue{fmt.Sprintf("global.runtime.httpRoute.hostnames[%d]", i), host, false})
	}
	if g.gateway == "" {
		return values
	}
	parent := mode.ParentRef{Name: g.gateway}
	if namespace, name, ok := strings.Cut(g.gateway, "/"); ok {
		parent = mode.ParentRef{Namespace: namespace, Name: name}
		values = append(values, chartValue{"global.runtime.httpRoute.parentRefs[0].namespace", namespace, false})
	}
	settings.HTTPRoute.ParentRefs = []mode.ParentRef{parent}
	return append(values, chartValue{"global.runtime.httpRoute.parentRefs[0].name", parent.Name, false})
}

// check refuses what the chart would refuse, all of it at once.
func (g *installFlags) check(command *cobra.Command, settings mode.Settings) error {
	_, findings := mode.Resolve(settings)
	var problems []error
	for _, finding := range findings {
		text := finding.String()
		if finding.Warning {
			note(command, "warning: %s", text)
			continue
		}
		problems = append(problems, errors.New(text))
	}
	for flag, value := range map[string]string{"namespace": g.namespace, "release": g.release} {
		if wrong := validation.IsDNS1123Label(value); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("--%s %q: %s", flag, value, wrong[0]))
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
	if len(problems) > 0 {
		return usageError{errors.Join(problems...)}
	}
	return nil
}

// prepareKey makes the key, or checks the one that is there.
func (g *installFlags) prepareKey(command *cobra.Command, client *platformClient, name, account string) error {
	if !g.createKey {
		if _, err := os.Stat(g.keyFile); err != nil {
			return usageError{fmt.Errorf("there is no API key in %s: name its file with --key-file, or make one with --create-key", g.keyFile)}
		}
		key, err := readSecretFile(command, g.keyFile, "the API key")
		if err != nil {
			return err
		}
		return checkInstallKey(command, client, key, account)
	}
	if _, err := os.Lstat(g.keyFile); err == nil {
		return usageError{fmt.Errorf("%s is there already: name another with --key-file, or use it without --create-key", g.keyFile)}
	}
	answer, err := ask(command.Context(), client, client.keys().CreateKey, &platformv1.CreateKeyRequest{
		Name: "runtime " + name, Scopes: []platformv1.Scope{platformv1.Scope_SCOPE_RUNTIME_REGISTER}, Lifetime: durationpb.New(installKeyLife),
	})
	if err != nil {
		return err
	}
	err = writePrivate(g.keyFile, func(w io.Writer) error {
		_, err := io.WriteString(w, answer.GetSecret())
		return err
	})
	if err != nil {
		return errors.Join(err, client.revoke(command.Context(), answer.GetKey().GetId()))
	}
	note(command, "A key for registering runtimes is in %s. It is good until %s; delete the file after the installation.",
		g.keyFile, shownExpiry(answer.GetKey().GetExpiresAt()))
	return nil
}

// checkInstallKey refuses a key that cannot register runtimes of this account.
func checkInstallKey(command *cobra.Command, client *platformClient, key secret.Text, account string) error {
	as := client.platformContext
	as.Key = key
	other, err := newPlatformClient(as)
	if err != nil {
		return err
	}
	defer other.close()
	me, err := ask(command.Context(), other, other.auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return fmt.Errorf("the key in the key file: %w", err)
	}
	switch {
	case me.GetAccount().GetId() != account:
		return fmt.Errorf("the key in the key file is of the account %s: take one of yours", printable(me.GetAccount().GetName()))
	case me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN:
		return fmt.Errorf("the key in the key file is of %s, who is no admin: only admins register runtimes", printable(me.GetUser().GetEmail()))
	}
	return nil
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:=@%+,", r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// keyCommands put the key into its Secret, from standard input.
func keyCommands(given *installFlags) string {
	file, err := filepath.Abs(given.keyFile)
	if err != nil {
		file = given.keyFile
	}
	text := fmt.Sprintf(`kubectl create namespace %[1]s --dry-run=client -o yaml | kubectl apply -f -
kubectl create secret generic %[2]s --namespace %[1]s --from-file=%[3]s=/dev/stdin < %[4]s
`, given.namespace, keySecretName, keyOfToken, shellWord(file))
	if given.caFile != "" {
		text += fmt.Sprintf("kubectl create secret generic %s --namespace %s --from-file=%s\n", caSecretName, given.namespace, shellWord("ca-bundle.crt="+given.caFile))
	}
	return text
}

func printHelm(w io.Writer, given *installFlags, values []chartValue) error {
	text := "# 1. The API key goes into a Secret.\n" + keyCommands(given) + "\n# 2. Helm installs the runtime, which joins with the key.\n"
	lines := []string{fmt.Sprintf("helm upgrade --install %s --create-namespace --namespace %s", given.release, given.namespace)}
	for _, value := range values {
		flag := "--set-string"
		if value.plain {
			flag = "--set"
		}
		lines = append(lines, "  "+flag+" "+shellWord(value.key+"="+strings.ReplaceAll(value.value, ",", `\,`)))
	}
	last := "  " + shellWord(given.chart)
	if given.version != "" {
		last += " --version " + shellWord(given.version)
	}
	if !given.noWait {
		last += " --wait"
	}
	_, err := fmt.Fprintln(w, text+strings.Join(append(lines, last), " \\\n"))
	return err
}

// printTerraform prints a helm_release (R76).
func printTerraform(w io.Writer, given *installFlags, values []chartValue) error {
	repository, chart := given.chart, "gitops-runtime"
	if at := strings.LastIndex(given.chart, "/"); at > 0 {
		repository, chart = given.chart[:at], given.chart[at+1:]
	}
	var text strings.Builder
	text.WriteString("# The API key goes into a Secret before terraform apply, and is in no state of Terraform:\n")
	for _, line := range strings.Split(strings.TrimSpace(keyCommands(given)), "\n") {
		text.WriteString("#   " + line + "\n")
	}
	_, _ = fmt.Fprintf(&text, `resource "helm_release" %s {
  name             = %s
  repository       = %s
  chart            = %s
  namespace        = %s
  create_namespace = true
`, terraformText(strings.ReplaceAll(given.release, "-", "_")), terraformText(given.release), terraformText(repository), terraformText(chart), terraformText(given.namespace))
	if given.version != "" {
		_, _ = fmt.Fprintf(&text, "  version          = %s\n", terraformText(given.version))
	}
	text.WriteString("  set = [\n")
	for _, value := range values {
		kind := ""
		if !value.plain {
			kind = `, type = "string"`
		}
		_, _ = fmt.Fprintf(&text, "    { name = %s, value = %s%s },\n", terraformText(value.key), terraformText(value.value), kind)
	}
	text.WriteString("  ]\n}\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// terraformText is a text as HCL quotes it; ${ and %{ would be templates.
func terraformText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", "$${", "%{", "%%{", "\n", `\n`).Replace(text) + `"`
}
