package validate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
)

// soonExpires is the time before the expiry of a Git token at which it is
// reported.
const soonExpires = 14 * 24 * time.Hour

// online checks against the cluster, the platform, the address and the Git
// provider. Values that are wrong by themselves are not checked again.
func (i *inspection) online(ctx context.Context) {
	if i.faulty("--namespace") {
		return
	}
	// The credential comes first: for a runtime that has joined, a missing API
	// key is a warning only.
	held, err := i.options.World.Membership(ctx, i.options.Namespace)
	if err != nil {
		i.wrong(CodeClusterUnread, "", "the cluster cannot be read: "+err.Error(), "check the kubeconfig, and the rights to read Secrets of the namespace "+i.options.Namespace)
		return
	}
	i.held, i.report.Upgrade = held, held != nil
	if i.document.Flag(values.KeyPlatformEnabled) {
		i.readToken(ctx)
		i.readAuthorities(ctx)
	}
	i.readGitPassword(ctx)
	i.checkClass(ctx)
	i.checkCertificates(ctx)
	// The platform comes before Git, because the settings of the account name
	// the Git provider.
	git := i.probePlatform(ctx)
	i.probeAddress(ctx)
	i.probeGit(ctx, git)
}

// readToken reads the API key from the Secret that the values name (R31, P10).
func (i *inspection) readToken(ctx context.Context) {
	name, key := i.document.Text(values.KeyTokenRefName), i.document.Text(values.KeyTokenRefKey)
	switch {
	case i.faulty(values.KeyToken) || i.faulty(values.KeyTokenRefName) || !i.token.IsZero():
	case name == "" && i.held == nil:
		i.tokenMissing()
	case name != "":
		i.token = i.read(ctx, values.KeyTokenRefName, values.KeyTokenRefKey, name, key)
	}
}

// read reads a key of a Secret that values name. A runtime that has joined
// needs its API key no more.
func (i *inspection) read(ctx context.Context, nameKey, keyKey, name, key string) secret.Text {
	found, err := i.options.World.Secret(ctx, i.options.Namespace, name, key)
	at := i.options.Namespace + "/" + name
	// A runtime that has joined has a credential of its own, so the Secret may
	// be gone.
	report := i.wrong
	if nameKey == values.KeyTokenRefName && i.held != nil {
		report = i.warn
	}
	switch {
	case errors.Is(err, ErrNoSecret):
		report(CodeSecretMissing, nameKey, "there is no Secret "+at, "kubectl create secret generic "+name+" -n "+i.options.Namespace+" --from-file="+key+"=FILE")
	case errors.Is(err, ErrNoKey):
		report(CodeSecretKey, keyKey, "the Secret "+at+" has no key "+key+", or it is empty", "name the key that has it: kubectl describe secret "+name+" -n "+i.options.Namespace+" lists them")
	case err != nil:
		i.wrong(CodeClusterUnread, nameKey, "the Secret "+at+" cannot be read: "+err.Error(), "allow it, or set "+values.KeySkipValidation+" to true")
	}
	return found
}

// readAuthorities reads the CA certificates of the platform.
func (i *inspection) readAuthorities(ctx context.Context) {
	name := i.document.Text(values.KeyCARefName)
	if name == "" || i.faulty(values.KeyCARefName) || i.faulty(values.KeyCACreate) {
		return
	}
	found := i.read(ctx, values.KeyCARefName, values.KeyCARefKey, name, i.document.Text(values.KeyCARefKey))
	if !found.IsZero() && !certificates(found.Reveal()) {
		i.wrong(CodeCAInvalid, values.KeyCARefName, "the Secret has no certificate in PEM", "put the authorities of the platform into it")
		return
	}
	i.authorities = []byte(found.Reveal())
}

// readGitPassword reads the Git token from the Secret that the values name
// (R37).
func (i *inspection) readGitPassword(ctx context.Context) {
	name := i.document.Text(values.KeyGitRefName)
	if name != "" && i.git.IsZero() && !i.faulty(values.KeyGitRefName) {
		i.git = i.read(ctx, values.KeyGitRefName, values.KeyGitRefKey, name, i.document.Text(values.KeyGitRefKey))
	}
}

// checkClass checks that the IngressClass exists (P14). It is skipped with
// singleNamespace, because classes are cluster-scoped.
func (i *inspection) checkClass(ctx context.Context) {
	if i.chosen != mode.Ingress || i.document.Flag(values.KeySingleNamespace) {
		return
	}
	_, err := i.options.World.IngressClass(ctx, i.settings.Ingress.ClassName)
	own := i.document.Flag("edge.enabled") && i.document.Flag("edge.ingressClass.create") && i.document.Text("edge.ingressClass.name") == i.settings.Ingress.ClassName
	switch {
	case err == nil || own: // the chart makes its own
	case errors.Is(err, ErrNoClass):
		i.wrong(CodeClassMissing, mode.KeyIngressClassName, "there is no IngressClass "+i.settings.Ingress.ClassName, "kubectl get ingressclass lists them")
	default:
		i.warn(CodeClusterUnread, mode.KeyIngressClassName, "the IngressClass cannot be read: "+err.Error(), "allow it: get on ingressclasses")
	}
}

// checkCertificates looks for the certificates of the Ingress. Another tool may
// create them later, so a missing one is a warning.
func (i *inspection) checkCertificates(ctx context.Context) {
	if i.chosen != mode.Ingress {
		return
	}
	for at, certificate := range i.settings.Ingress.TLS {
		if certificate.SecretName == "" {
			continue
		}
		key := fmt.Sprintf("%s[%d].secretName", mode.KeyIngressTLS, at)
		name := i.options.Namespace + "/" + certificate.SecretName
		switch _, err := i.options.World.Secret(ctx, i.options.Namespace, certificate.SecretName, "tls.crt"); {
		case errors.Is(err, ErrNoSecret):
			i.warn(CodeSecretMissing, key, "there is no Secret "+name+" yet", "make it, unless something else does: kubectl create secret tls "+certificate.SecretName+" -n "+i.options.Namespace+" --cert=FILE --key=FILE")
		case errors.Is(err, ErrNoKey):
			i.wrong(CodeSecretKey, key, "the Secret "+name+" has no certificate under tls.crt", "put one into it, or name another Secret")
		case err != nil:
			i.warn(CodeClusterUnread, key, "the Secret "+name+" cannot be read: "+err.Error(), "allow it: get on secrets")
		}
	}
}

// probePlatform checks key, account and name at the platform (R32 to R34, P8,
// P11, P12), and returns the Git settings of the account.
func (i *inspection) probePlatform(ctx context.Context) *GitSettings {
	if !i.document.Flag(values.KeyPlatformEnabled) || i.token.IsZero() || i.faulty(values.KeyPlatformURL) {
		return nil
	}
	link := Link{URL: strings.TrimSuffix(i.document.Text(values.KeyPlatformURL), "/"), Token: i.token, Authorities: i.authorities}
	caller, err := i.options.World.Caller(ctx, link)
	tokenKey := values.KeyToken
	if i.document.Text(values.KeyToken) == "" {
		tokenKey = values.KeyTokenRefName
	}
	switch {
	case errors.Is(err, ErrRefused) && i.held != nil:
		// It joined with a key that may have ended since.
		i.note(CodeTokenRefused, tokenKey, "the platform does not know the API key any more; the runtime has a credential of its own")
		return nil
	case errors.Is(err, ErrRefused):
		i.wrong(CodeTokenRefused, tokenKey, "the platform does not know the API key", "make one: slipway runtime install NAME --create-key, or slipway api-key create NAME --scope runtime-register")
		return nil
	case err != nil:
		i.wrong(CodePlatformDown, values.KeyPlatformURL, "the platform does not respond: "+err.Error(), "check the URL, the network, proxies and "+values.KeyCARefName)
		return nil
	}
	i.checkCaller(caller, tokenKey)
	i.checkName(ctx, link, caller)
	// They are for the check of the Git token alone.
	if i.git.IsZero() {
		return nil
	}
	settings, err := i.options.World.GitSettings(ctx, link)
	if err != nil {
		i.settingsError = err
		return nil
	}
	return &settings
}

// checkCaller checks that the key is an admin's of the account.
func (i *inspection) checkCaller(caller Caller, tokenKey string) {
	// A runtime that has joined does not use the key any more.
	if i.held == nil && !caller.Admin {
		i.wrong(CodeNotAdmin, tokenKey, "the API key is of "+caller.Email+", who is no admin of the account "+caller.Account, "use a key of an admin")
	} else if i.held == nil && !caller.MayRegister {
		i.wrong(CodeKeyScope, tokenKey, "the API key may not register runtimes", "make one with the scope all or runtime-register")
	}
	given := i.settings.AccountID
	if given != "" && given != caller.AccountID && !i.faulty(values.KeyAccountID) {
		i.wrong(CodeAccountDiffers, values.KeyAccountID, "it is "+given+", and the API key belongs to the account "+caller.AccountID+" ("+caller.Account+")", "write "+caller.AccountID+", or use a key of the other account")
	}
}

// checkName checks that the name is free (R33). An installed runtime keeps its
// name.
func (i *inspection) checkName(ctx context.Context, link Link, caller Caller) {
	name := i.settings.Runtime
	if i.faulty(values.KeyRuntimeName) || !caller.Admin {
		return
	}
	if i.held != nil {
		if i.held.Runtime != "" && i.held.Runtime != name {
			i.wrong(CodeRuntimeDiffers, values.KeyRuntimeName, "the namespace has the runtime "+i.held.Runtime+", and runtimes are not renamed", "write "+i.held.Runtime+", or uninstall it first")
		}
		return
	}
	// Without a response the name is a warning: the platform checks it again
	// when the runtime registers.
	response, err := i.options.World.NameFree(ctx, link, name)
	switch {
	case err != nil:
		i.warn(CodePlatformDown, values.KeyRuntimeName, "the platform could not check whether the name is free: "+err.Error(), "check it with slipway runtime list")
	case !response.Free:
		fix := "choose another"
		if response.Proposal != "" {
			fix += ", such as " + response.Proposal
		}
		i.wrong(CodeNameTaken, values.KeyRuntimeName, name+" is not free in the account", fix)
	}
}

// probeAddress requests the address (R35, R41). Before the installation it need
// not respond.
func (i *inspection) probeAddress(ctx context.Context) {
	address := mode.URL(i.settings, i.chosen)
	if i.chosen == mode.Tunnel || address == "" {
		return
	}
	if i.document.Flag(values.KeyIngressSkip) {
		i.skip(values.KeyIngressSkip + " is true: " + address + " was not checked")
		return
	}
	// The finding is about the value that the address comes from.
	key := map[mode.Mode]string{mode.Ingress: mode.KeyIngressHosts + "[0]", mode.HTTPRoute: mode.KeyHTTPRouteHostnames + "[0]", mode.Mesh: mode.KeyIngressURL}[i.chosen]
	response, err := i.options.World.Get(ctx, address)
	later := "slipway preflight --stage after --namespace " + i.options.Namespace
	again := "check it again after the installation: " + later + ", or set " + values.KeyIngressSkip + " to true"
	// The router names its runtime in a header of each response, so that
	// another runtime or server behind the address is detected.
	switch {
	case err != nil:
		i.warn(CodeAddressDown, key, address+" does not respond: "+err.Error(), again)
	case response.Router != "" && response.Router != i.settings.Runtime:
		i.wrong(CodeAddressFails, key, address+" is served by the runtime "+response.Router, "give each runtime a host of its own")
	case response.Router == "" && i.held != nil:
		i.warn(CodeAddressFails, key, fmt.Sprintf("%s responds with %d, and not from the runtime", address, response.Status), "look at the Ingress: "+later)
	case response.Status >= 500:
		i.warn(CodeAddressFails, key, fmt.Sprintf("%s responds with %d", address, response.Status), again)
	}
}

// probeGit checks the Git token at its provider (R38, P22 to P25).
func (i *inspection) probeGit(ctx context.Context, settings *GitSettings) {
	if i.git.IsZero() {
		return
	}
	// The finding is about the value that the token comes from.
	key := values.KeyGitPassword
	if i.document.Text(key) == "" {
		key = values.KeyGitRefName
	}
	requested := i.gitSettings(settings)
	if requested.Provider == "" && i.settingsError != nil {
		i.warn(CodeGitUnverified, key, "the Git token is not checked, because the Git settings of the account cannot be read: "+i.settingsError.Error(), "set "+values.KeyGitURL+", or check the token after the installation: slipway integration git status")
		return
	}
	if requested.Provider == "" {
		i.note(CodeGitUnverified, key, "the Git provider is not known yet: the token is checked when the account has Git settings, or with "+values.KeyGitURL)
		return
	}
	// The API of a Git server often has a certificate of the same private CA as
	// its repositories.
	for _, authority := range i.document.TextMap(values.KeyRepositoryCerts) {
		requested.Authorities = append(requested.Authorities, authority+"\n"...)
	}
	report, err := i.options.World.GitToken(ctx, requested, i.document.Text(values.KeyGitUsername), i.git)
	if providerErr, ok := errors.AsType[*gitprovider.Error](err); ok {
		i.gitError(key, providerErr)
		return
	}
	if err != nil {
		i.warn(CodeGitUnreachable, key, "the Git provider cannot be queried: "+err.Error(), "check the API URL of the account's Git settings")
		return
	}
	if !report.OK() {
		i.wrong(CodeGitScope, key, "the Git token lacks "+strings.Join(report.MissingNames(), ", "), "add it at "+gitprovider.Kind(requested.Provider).Title())
	}
	if !report.ExpiresAt.IsZero() && time.Until(report.ExpiresAt) < soonExpires {
		i.warn(CodeGitExpiry, key, "the Git token ends on "+report.ExpiresAt.UTC().Format(time.DateOnly), "make a new one")
	}
	for _, doubt := range report.Unverified {
		i.note(CodeGitUnverified, key, doubt)
	}
}

// gitSettings returns those of the account, or what follows from the URL.
func (i *inspection) gitSettings(settings *GitSettings) GitSettings {
	if settings != nil && settings.Provider != "" {
		if _, err := wire.ParseSharedRepository(settings.SharedRepository); err != nil && settings.SharedRepository != "" {
			i.warn(CodeSharedRepository, "", "the Shared Configuration Repository of the account cannot be read: "+err.Error(), "an admin corrects the Git settings of the account")
		}
		return *settings
	}
	// Infer expects the URL of a repository. All repositories below the prefix
	// are at the same provider.
	kind, api, ok := gitprovider.Infer(strings.TrimSuffix(i.document.Text(values.KeyGitURL), "/") + "/any/repository.git")
	if !ok {
		return GitSettings{}
	}
	return GitSettings{Provider: string(kind), APIURL: api}
}

// gitError reports an error of the Git provider.
func (i *inspection) gitError(key string, providerErr *gitprovider.Error) {
	// The runtime retries after network errors and rate limits, so these are
	// warnings.
	switch providerErr.Kind {
	case gitprovider.Denied:
		i.wrong(CodeGitRefused, key, providerErr.Message, "make a new token with the scopes of a runtime")
	case gitprovider.Certificate:
		i.wrong(CodeGitUnreachable, key, providerErr.Message, "add the authorities of the Git server: "+values.KeyRepositoryCerts)
	case gitprovider.Invalid, gitprovider.NotFound, gitprovider.Conflict, gitprovider.NotRegistered:
		i.wrong(CodeGitRefused, key, providerErr.Message, "check the Git settings of the account")
	case gitprovider.RateLimited, gitprovider.Unreachable:
		i.warn(CodeGitUnreachable, key, providerErr.Message, "it is checked again when the runtime runs")
	}
}
