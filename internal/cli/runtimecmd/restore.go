package runtimecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/install/lifecycle"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// gitFlags select the Shared Configuration Repository of a restore, and the
// credentials for it. All fields but from and user are paths of files.
type gitFlags struct {
	from             string
	token, user      string
	ca               string
	sshKey, sshHosts string
}

// runtimeRestoreCommand installs a lost runtime on a new cluster (R117).
// lifecycle.Restore does the work; the command reads the credentials. It needs
// a platform, because the old registration has to be checked and replaced. A
// runtime that is still online is refused, because two of one name would
// reconcile the same Applications.
func runtimeRestoreCommand(choice *apiclient.Choice) *cobra.Command {
	// The mode is the default of install; restore has no flag for it.
	given := &lifecycle.RestoreOptions{InstallOptions: lifecycle.InstallOptions{Mode: "tunnel"}}
	shared, git := &releaseFlags{}, &gitFlags{}
	command := &cobra.Command{
		Use:   "restore NAME --from REPOSITORY",
		Short: "Install a lost runtime on a new cluster, from the Shared Configuration Repository",
		Long: `Installs a runtime whose cluster is lost on a new cluster, from its chart, values and
Applications in the Shared Configuration Repository. It registers under the same name,
and restores its Applications from Git. Nothing is restored while the old runtime is
online. After your confirmation, the registration of the old runtime is deleted at the
platform.

Secrets are not in Git: the API key comes from --create-key or --key-file as for
slipway runtime install, and the Git token of the runtime from --git-token-file. The
token is also used to read the repository. Secret values must be given again with
--values or --set; the file in the repository lists the omitted ones. A runtime that
never was an Application of itself has no values in the repository: give them with
--values or --set.`,
		Example: `  slipway runtime restore prod --from https://github.com/acme/config.git --git-token-file token.txt --create-key
  slipway runtime restore prod --from https://git.example.com/acme/config.git/slipway?ref=live --git-token-file token.txt --git-ca-file ca.pem --create-key --dry-run`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	shared.add(command, &given.Options)
	flags := command.Flags()
	flags.StringVar(&git.from, "from", "", "Shared Configuration Repository, <repository>.git[/<path>][?ref=<branch>]")
	flags.BoolVar(&given.CreateKey, "create-key", false, "create an API key for the installation")
	flags.StringVar(&given.KeyFile, "key-file", "", "file with the API key")
	flags.StringVar(&git.token, "git-token-file", "", "file with the Git token of the runtime; - is standard input")
	flags.StringVar(&git.user, "git-username", "", "user name for the Git token, if the provider requires one")
	flags.StringVar(&git.ca, "git-ca-file", "", "PEM file with the CA certificates of a self-hosted Git server")
	flags.StringVar(&git.sshKey, "ssh-key-file", "", "file with a private SSH key, for a repository over SSH")
	flags.StringVar(&git.sshHosts, "known-hosts-file", "", "known_hosts file, for a repository over SSH")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		// The repository is parsed before credentials are read, which may
		// consume standard input.
		var err error
		if given.From, err = wire.ParseSharedRepository(git.from); err != nil {
			return exit.UsageError{Err: fmt.Errorf("--from: %w", err)}
		}
		if given.Access, given.Credentials, err = git.access(command); err != nil {
			return err
		}
		if err := shared.finish(command, &given.Options); err != nil {
			return err
		}
		return finish(lifecycle.Restore(command.Context(), newUI(command), platform{client}, args[0], given))
	})
	return command
}

// access reads the credentials. The first result opens the repository from this
// machine; the second has the same credentials for the runtime, and is nil
// without a token: SSH credentials are sent to the runtime only together with
// one.
func (f *gitFlags) access(command *cobra.Command) (remote.Access, *runtimev1.SetRuntimeCredentialsRequest, error) {
	var access remote.Access
	given := &runtimev1.SetRuntimeCredentialsRequest{Username: f.user}
	// All files are read before the first change, so that a missing one fails
	// early.
	for _, one := range []struct {
		path, what string
		take       func(secret.Text)
	}{
		{f.token, "the Git token", func(text secret.Text) {
			access.Credential.Username, access.Credential.Password, given.Token = f.user, text, text.Reveal()
		}},
		{f.sshKey, "the SSH key", func(text secret.Text) {
			// SSH tools need the newline at the end that ReadSecret trims.
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
	// CA certificates are public and have no check of the file mode.
	authorities, err := files.ReadAuthorities(f.ca)
	if err != nil {
		return access, nil, exit.UsageError{Err: fmt.Errorf("--git-ca-file: %w", err)}
	}
	access.Authorities, given.CertificateAuthorities = authorities, string(authorities)
	if given.Token == "" {
		return access, nil, nil
	}
	return access, given, nil
}
