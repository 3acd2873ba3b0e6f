package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// prepareSecrets adds the Secrets that the values name and the operation creates:
// the API key, and the CA certificates of the platform. A Secret of the user's own
// choice is only used; validation reports if it is missing.
func (g *InstallOptions) prepareSecrets(ctx context.Context, o *operation) error {
	o.pendingSecrets = map[string]map[string]secret.Text{}
	// Only the default name stands for a Secret that this operation creates.
	// Another name is a Secret of the user.
	if o.document.Text(values.KeyCARefName) == release.CASecret && o.platform != nil && o.platform.CAFile() != "" {
		authorities, err := o.platform.Authorities()
		if err != nil {
			return InvalidError{fmt.Errorf("the CA certificates of the platform: %w", err)}
		}
		o.addSecret(release.CASecret, release.CAKey, secret.New(string(authorities)))
	}
	// A runtime without a platform needs no key, and a key in the values needs
	// no Secret.
	if !o.document.Flag(values.KeyPlatformEnabled) || o.document.Text(values.KeyToken) != "" {
		return nil
	}
	name, key := o.document.Text(values.KeyTokenRefName), o.document.Text(values.KeyTokenRefKey)
	switch {
	case g.KeyFile != "" && g.CreateKey:
		return InvalidError{errors.New("--key-file and --create-key do not go together here: keep one of them")}
	case g.CreateKey:
		return g.createKeyWhenConfirmed(o, name, key)
	case g.KeyFile != "":
		text, err := o.ui.ReadSecret(g.KeyFile, "the API key")
		if err != nil {
			return err
		}
		// Without a platform here, validation checks the key at the URL in the
		// values.
		if o.platform != nil {
			if err := checkInstallKey(ctx, o.platform, text); err != nil {
				return err
			}
		}
		o.addSecret(name, key, text)
		return nil
	}
	// Validation reports if a Secret of the user is missing.
	if name != release.TokenSecret {
		return nil
	}
	// The Secret of the default name may be there already, for example from an
	// earlier installation.
	if _, err := (&validate.Live{Cluster: o.cluster}).Secret(ctx, g.Namespace, name, key); err != nil {
		return InvalidError{fmt.Errorf("there is no API key in the Secret %s/%s: create one with --create-key, or name its file with --key-file", g.Namespace, name)}
	}
	return nil
}

// addSecret adds a Secret that is created with the release. The result is its data,
// which may be changed until the plan is applied.
func (o *operation) addSecret(name, key string, text secret.Text) map[string]secret.Text {
	data := map[string]secret.Text{key: text}
	o.secrets = append(o.secrets, release.Secret{Name: name, Data: data})
	// Validation gets a map of its own: data may be changed after it.
	o.pendingSecrets[name] = map[string]secret.Text{key: text}
	return data
}

// createKeyWhenConfirmed creates the API key after the user has agreed, and revokes
// it if the installation fails. Until then the user's own key stands in for it in
// validation: it is an admin's as well.
func (g *InstallOptions) createKeyWhenConfirmed(o *operation, name, key string) error {
	if o.platform == nil {
		return InvalidError{errors.New("--create-key needs a platform, and none is chosen: run slipway login URL")}
	}
	data := o.addSecret(name, key, o.platform.Key())
	// id is set by confirmed and read by failed. Both run in the goroutine of
	// the operation.
	id := ""
	o.confirmed = func(ctx context.Context) error {
		created, err := o.platform.CreateInstallKey(ctx, o.name())
		if err != nil {
			return err
		}
		// The plan has the same map, so the release gets the created key.
		id, data[key] = created.GetKey().GetId(), secret.New(created.GetSecret())
		return nil
	}
	o.failed = func(ctx context.Context) {
		if g.KeepFailed || id == "" {
			return
		}
		if err := o.platform.RevokeKey(ctx, id); err != nil {
			o.ui.Note("The key that was created for the installation could not be revoked: %s", err.Error())
		}
	}
	return nil
}

// prepareKeyFile creates the API key in a new file, or checks the one that is there.
func (g *InstallOptions) prepareKeyFile(ctx context.Context, o *operation) error {
	if !g.CreateKey {
		if _, err := os.Stat(g.KeyFile); err != nil {
			return InvalidError{fmt.Errorf("there is no API key in %s: name its file with --key-file, or create one with --create-key", g.KeyFile)}
		}
		key, err := o.ui.ReadSecret(g.KeyFile, "the API key")
		if err != nil {
			return err
		}
		return checkInstallKey(ctx, o.platform, key)
	}
	// Lstat finds a dangling link as well, which Stat would take for a free
	// name.
	if _, err := os.Lstat(g.KeyFile); err == nil {
		return InvalidError{fmt.Errorf("%s is there already: name another with --key-file, or use it without --create-key", g.KeyFile)}
	}
	created, err := o.platform.CreateInstallKey(ctx, o.name())
	if err != nil {
		return err
	}
	if err := o.ui.WriteSecret(g.KeyFile, secret.New(created.GetSecret())); err != nil {
		// A key that is stored nowhere must not stay valid.
		return errors.Join(err, o.platform.RevokeKey(ctx, created.GetKey().GetId()))
	}
	expires := "never"
	if at := created.GetKey().GetExpiresAt(); at != nil {
		expires = at.AsTime().UTC().Format(time.RFC3339)
	}
	o.ui.Note("A key for registering runtimes is in %s. It expires %s; delete the file after the installation.", g.KeyFile, expires)
	return nil
}

// checkInstallKey refuses a key that cannot register runtimes of the user's account.
func checkInstallKey(ctx context.Context, platform Platform, key secret.Text) error {
	// A key of another account would register the runtime where the user does
	// not see it, so both accounts are read.
	mine, err := platform.Me(ctx)
	if err != nil {
		return err
	}
	me, err := platform.MeWith(ctx, key)
	if err != nil {
		return fmt.Errorf("the key in the key file: %w", err)
	}
	switch {
	case me.GetAccount().GetId() != mine.GetAccount().GetId():
		return fmt.Errorf("the key in the key file is of the account %s: use one of your account", me.GetAccount().GetName())
	case me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN:
		return fmt.Errorf("the key in the key file is of %s, who is no admin: only admins register runtimes", me.GetUser().GetEmail())
	}
	return nil
}
