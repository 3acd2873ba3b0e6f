package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// returnTime is how long a restored runtime may take to be reached, and to find its
// Applications again, each.
const returnTime = 3 * time.Minute

// restoreFlags say from where a runtime is restored.
type restoreFlags struct {
	installFlags
	from                    string
	gitToken, gitUser       string
	gitCA, sshKey, sshHosts string
}

// runtimeRestoreCommand installs a lost runtime on a new cluster (R117).
func runtimeRestoreCommand(choice *apiclient.Choice) *cobra.Command {
	given := &restoreFlags{installFlags: installFlags{mode: "tunnel"}}
	command := &cobra.Command{
		Use:   "restore NAME --from REPOSITORY",
		Short: "Install a lost runtime on a new cluster, from the Shared Configuration Repository",
		Long: `Installs a runtime whose cluster is lost on a new one, from what the Shared
Configuration Repository has of it: its chart, its values and its Applications. It
registers under the same name, and takes its Applications back from Git. Nothing is
restored while the old one is online. The platform forgets the old one when you have
agreed.

Secrets are not in Git: the API key comes from --create-key or --key-file as for
slipway runtime install, and the Git token of the runtime from --git-token-file. The
token also opens the repository here. Values that are secret have to be given again
with --values or --set; the file in the repository says which were left out. A runtime
that was never made an Application of itself has no values in the repository: give
them with --values or --set.`,
		Example: `  slipway runtime restore prod --from https://github.com/acme/config.git --git-token-file token.txt --create-key
  slipway runtime restore prod --from https://git.example.com/acme/config.git/slipway?ref=live --git-token-file token.txt --git-ca-file ca.pem --create-key --dry-run`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	given.add(command)
	flags := command.Flags()
	flags.StringVar(&given.from, "from", "", "Shared Configuration Repository, <repository>.git[/<path>][?ref=<branch>]")
	flags.BoolVar(&given.createKey, "create-key", false, "make an API key for the installation")
	flags.StringVar(&given.keyFile, "key-file", "", "file with the API key")
	flags.StringVar(&given.gitToken, "git-token-file", "", "file with the Git token of the runtime; - is standard input")
	flags.StringVar(&given.gitUser, "git-username", "", "user name for the Git token, where the provider needs one")
	flags.StringVar(&given.gitCA, "git-ca-file", "", "file with the authorities of a Git server in house")
	flags.StringVar(&given.sshKey, "ssh-key-file", "", "file with a private SSH key, for a repository over SSH")
	flags.StringVar(&given.sshHosts, "known-hosts-file", "", "file with lines of known_hosts, for a repository over SSH")
	command.RunE = apiclient.WithClient(choice, nil, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		return given.run(command, client, args[0])
	})
	return command
}

// heritage is what the repository has of a runtime.
type heritage struct {
	commit string
	// values are nil when the repository has none.
	values map[string]any
	// archive is the packed chart, and version what it is of.
	archive []byte
	version string
	// sources are the files of Git Sources, and others the runtimes of the repository.
	sources, others []string
	known           bool
}

func (f *restoreFlags) run(command *cobra.Command, client *apiclient.Client, name string) error {
	ctx := command.Context()
	if err := sharedrepo.CheckRuntime(name); err != nil {
		return exit.UsageError{Err: err}
	}
	access, credentials, err := f.access(command)
	if err != nil {
		return err
	}
	location, err := wire.ParseSharedRepository(f.from)
	if err != nil {
		return exit.UsageError{Err: fmt.Errorf("--from: %w", err)}
	}
	old, err := client.FindRuntime(ctx, name)
	if err != nil {
		return err
	}
	if old.GetOnline() {
		return fmt.Errorf("the runtime %s is online in the cluster %s: a second one of this name would fight with it; uninstall that one, or wait until it is offline", name, printer.Printable(old.GetCluster()))
	}
	if err := client.CheckSharedRepository(command, location); err != nil {
		return err
	}
	found, err := readHeritage(ctx, location, access, name)
	if err != nil {
		return err
	}
	if !found.known {
		return fmt.Errorf("the repository has no runtime %s: it has %s", name, printer.OrDash(printer.ShortList(found.others)))
	}
	o := &operation{command: command, given: &f.releaseFlags, platform: client, known: true}
	if !command.Flags().Changed("namespace") && old.GetNamespace() != "" {
		f.namespace = old.GetNamespace()
	}
	if err := f.prepare(o, name, found, old); err != nil {
		return err
	}
	defer o.close()
	if err := o.run(); err != nil || f.dryRun {
		return err
	}
	return f.takeBack(o, credentials)
}

// access is what opens the repository, and what the runtime gets.
func (f *restoreFlags) access(command *cobra.Command) (remote.Access, *runtimev1.SetRuntimeCredentialsRequest, error) {
	var access remote.Access
	given := &runtimev1.SetRuntimeCredentialsRequest{Username: f.gitUser}
	for _, one := range []struct {
		path, what string
		take       func(secret.Text)
	}{
		{f.gitToken, "the Git token", func(text secret.Text) {
			access.Credential.Username, access.Credential.Password, given.Token = f.gitUser, text, text.Reveal()
		}},
		{f.sshKey, "the SSH key", func(text secret.Text) {
			access.Credential.SSHPrivateKey, given.SshPrivateKey = secret.New(text.Reveal()+"\n"), text.Reveal()+"\n"
		}},
		{f.sshHosts, "the known hosts", func(text secret.Text) {
			access.KnownHosts, given.KnownHosts = []byte(text.Reveal()+"\n"), text.Reveal()+"\n"
		}},
	} {
		if one.path == "" {
			continue
		}
		text, err := prompt.ReadSecret(command, one.path, one.what)
		if err != nil {
			return access, nil, err
		}
		one.take(text)
	}
	authorities, err := files.ReadAuthorities(f.gitCA)
	if err != nil {
		return access, nil, exit.UsageError{Err: fmt.Errorf("--git-ca-file: %w", err)}
	}
	access.Authorities, given.CertificateAuthorities = authorities, string(authorities)
	if given.Token == "" {
		return access, nil, nil
	}
	return access, given, nil
}

// readHeritage reads what the repository has.
func readHeritage(ctx context.Context, location wire.SharedRepository, access remote.Access, name string) (*heritage, error) {
	repository, err := sharedrepo.Open(sharedrepo.Options{Location: location, Access: access})
	if err != nil {
		return nil, err
	}
	found := &heritage{}
	found.commit, err = repository.View(ctx, func(files sharedrepo.Files) error { return found.read(files, name) })
	return found, err
}

func (h *heritage) read(files sharedrepo.Files, name string) error {
	runtimes, err := files.List(path.Dir(sharedrepo.RuntimeFolder(name)))
	if err != nil {
		return err
	}
	h.others = topFolders(runtimes)
	for _, one := range h.others {
		h.known = h.known || one == name
	}
	own, err := files.List(sharedrepo.GitSourceFolder(name))
	if err != nil {
		return err
	}
	folder := sharedrepo.ChartFolder(name)
	for _, file := range own {
		base := path.Base(file)
		switch {
		case strings.HasSuffix(file, ".tgz") && strings.HasPrefix(base, sharedrepo.ChartName+"-"):
			h.archive, _, err = files.Read(path.Join(folder, "charts", base))
			h.version = strings.TrimSuffix(strings.TrimPrefix(base, sharedrepo.ChartName+"-"), ".tgz")
		case strings.HasSuffix(file, ".yaml") && !strings.Contains(strings.TrimPrefix(file, sharedrepo.GitSourceFolder(name)+"/"), "/"):
			h.sources = append(h.sources, strings.TrimSuffix(base, ".yaml"))
		}
		if err != nil {
			return err
		}
	}
	text, there, err := files.Read(path.Join(folder, "values.yaml"))
	if err != nil || !there {
		return err
	}
	var all map[string]map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s/values.yaml is no YAML of values", folder)
	}
	h.values = all[sharedrepo.ChartName]
	return nil
}

// topFolders are the folders that files are in, each once.
func topFolders(files []string) []string {
	seen := map[string]bool{}
	for _, file := range files {
		parts := strings.Split(file, "/")
		if len(parts) >= 2 {
			seen[parts[len(parts)-2]] = true
		}
	}
	return sortedNames(seen)
}

// prepare makes an installation of what was found.
func (f *restoreFlags) prepare(o *operation, name string, found *heritage, old *platformv1.Runtime) (err error) {
	if found.values == nil {
		printer.Note(o.command, "The repository has no values of the runtime, because it was not an Application of itself: those of the command line are used.")
	}
	if f.chart == "" && len(found.archive) > 0 && (f.version == "" || f.version == found.version) {
		o.chart, err = release.ReadChart(found.archive)
	} else {
		o.chart, err = f.findChart(o.command.Context())
	}
	if err != nil {
		return err
	}
	if err := o.settle(found.values, nil); err != nil {
		return err
	}
	if is := strings.TrimSuffix(o.document.Text(values.KeyPlatformURL), "/"); is != "" && is != o.platform.BaseURL() {
		return exit.UsageError{Err: fmt.Errorf("the runtime belongs to the platform %s, and you are at %s: choose its context with --platform-context, or say --set %s=%s if it has moved", printer.Printable(is), o.platform.BaseURL(), values.KeyPlatformURL, o.platform.BaseURL())}
	}
	flags, err := f.values(o, name)
	if err != nil {
		return err
	}
	if old.GetConfigurationRuntime() {
		flags = append(flags, handover.Value{Key: "global.runtime.isConfigurationRuntime", Text: "true", Plain: true})
	}
	if err := o.settle(found.values, flags); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	current, err := o.client.Current(o.command.Context())
	if err == nil && current != nil {
		err = fmt.Errorf("the release %s/%s is in this cluster already: restore is for a new cluster", f.namespace, f.release)
	}
	if err == nil {
		err = f.useKey(o)
	}
	if err != nil {
		o.close()
		return err
	}
	printer.Note(o.command, "The repository has the runtime at commit %s, with chart %s and the Git Sources %s.", printer.OrDash(printer.ShortRevision(found.commit)), printer.OrDash(found.version), printer.OrDash(printer.ShortList(found.sources)))
	o.forgetFailed()
	f.replaceOld(o, name, old)
	return nil
}

// replaceOld has the platform forget the old runtime when somebody has agreed: the
// name is one cluster's.
func (f *restoreFlags) replaceOld(o *operation, name string, old *platformv1.Runtime) {
	o.question = fmt.Sprintf("Restore the runtime %s?", printer.Printable(name))
	o.done = fmt.Sprintf("The runtime %s is restored.", name)
	if old == nil {
		return
	}
	printer.Note(o.command, "The platform forgets the old one of the cluster %s, last seen %s.", printer.OrDash(old.GetCluster()), printer.Timestamp(old.GetLastHeartbeatAt()))
	makeKey := o.confirmed
	o.confirmed = func(ctx context.Context) error {
		if _, err := apiclient.Call(ctx, o.platform, o.platform.Runtimes().DeleteRuntime, &platformv1.DeleteRuntimeRequest{Name: name}); err != nil {
			return err
		}
		if makeKey != nil {
			return makeKey(ctx)
		}
		return nil
	}
}

// takeBack gives the runtime its Git token, and waits until it follows the repository
// again.
func (f *restoreFlags) takeBack(o *operation, credentials *runtimev1.SetRuntimeCredentialsRequest) error {
	name := o.name()
	if credentials == nil {
		printer.Note(o.command, "It takes its Applications back when it has its Git token: slipway integration git set-runtime-token --runtime %s --token-file FILE", name)
		return nil
	}
	ctx := o.command.Context()
	err := o.retry(ctx, func(ctx context.Context) error {
		bounded, cancel := context.WithTimeout(ctx, apiclient.RequestTimeout)
		defer cancel()
		_, err := o.platform.Integrations(name).SetRuntimeCredentials(bounded, connect.NewRequest(credentials))
		switch code := connect.CodeOf(err); {
		case err == nil:
			return nil
		case code == connect.CodeInvalidArgument || code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated:
			return finalError{o.platform.Explain(ctx, err)}
		}
		return o.platform.Explain(ctx, err)
	})
	if err != nil {
		return fmt.Errorf("the runtime runs, and does not take its Git token: %w; give it with slipway integration git set-runtime-token --runtime %s", err, name)
	}
	printer.Note(o.command, "waits until the runtime follows the Shared Configuration Repository")
	err = o.retry(ctx, func(ctx context.Context) error {
		_, err := o.cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(f.namespace).Get(ctx, sharedrepo.InClusterName(name), metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("the runtime runs, and does not follow the Shared Configuration Repository yet: %w; slipway runtime get %s says more", err, name)
	}
	printer.Note(o.command, "It takes its Applications back: slipway app list --runtime %s shows them.", name)
	return nil
}

// finalError is one that stays however often it is tried.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// retry asks until there is no error, and gives the last one when the time is over.
func (o *operation) retry(ctx context.Context, try func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	ticks := time.NewTicker(askEvery)
	defer ticks.Stop()
	last := errors.New("nothing was asked")
	for {
		err := try(waiting)
		if err == nil {
			return nil
		}
		if final := (finalError{}); errors.As(err, &final) {
			return final.error
		}
		if waiting.Err() == nil {
			last = err
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return last
		case <-ticks.C:
		}
	}
}
