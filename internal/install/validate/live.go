package validate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// requestTime bounds each request.
	requestTime = 15 * time.Second
	// addressTime bounds the request to an address, which may lead nowhere.
	addressTime = 10 * time.Second
	// responseBytes bounds the body of a response.
	responseBytes = 1 << 20
	// credentialSecret is the Secret of a runtime's credential.
	credentialSecret = "slipway-token"
)

// Live is the World of a real cluster and network.
type Live struct {
	Cluster *kube.Cluster
	// Proxy chooses proxies for platforms and Git providers; nil: from the
	// environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Roots verify the address of a runtime; nil means those of the system.
	Roots *x509.CertPool
	// Dial connects to the address of a runtime; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Secret implements World.
func (l *Live) Secret(ctx context.Context, namespace, name, key string) (secret.Text, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := l.Cluster.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return secret.Text{}, ErrNoSecret
	case err != nil:
		return secret.Text{}, err
	}
	text := strings.TrimSpace(string(found.Data[key]))
	if text == "" {
		return secret.Text{}, ErrNoKey
	}
	return secret.New(text), nil
}

// Membership implements World.
func (l *Live) Membership(ctx context.Context, namespace string) (*Membership, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := l.Cluster.Client.CoreV1().Secrets(namespace).Get(ctx, credentialSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Membership{
		Platform: string(found.Data["platform"]), Runtime: string(found.Data["runtime"]), AccountID: string(found.Data["account-id"]),
	}, nil
}

// IngressClass implements World.
func (l *Live) IngressClass(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := l.Cluster.Client.NetworkingV1().IngressClasses().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", ErrNoClass
	}
	if err != nil {
		return "", err
	}
	return found.Spec.Controller, nil
}

// client returns a client for a platform. Redirects are not followed, so that
// the key goes nowhere else.
func (l *Live) client(link Link) (*http.Client, error) {
	// A validation sends few requests, so no connection is kept.
	transport := &http.Transport{
		Proxy: l.proxy(), TLSHandshakeTimeout: requestTime, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
		DialContext: (&net.Dialer{Timeout: requestTime}).DialContext, ForceAttemptHTTP2: true,
	}
	// A client without CA certificates of its own uses those of the system.
	if len(link.Authorities) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the authorities of the system: %w", err)
		}
		pool.AppendCertsFromPEM(link.Authorities)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// proxy returns the proxy function.
func (l *Live) proxy() func(*http.Request) (*url.URL, error) {
	if l.Proxy != nil {
		return l.Proxy
	}
	return http.ProxyFromEnvironment
}

// callPlatform sends one request to a platform and maps its errors: ErrRefused for an
// unknown key, ErrMayNotRead for one without the right.
func callPlatform[Q, A any](ctx context.Context, link Link, call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), question *Q) (*A, error) {
	request := connect.NewRequest(question)
	request.Header().Set("Authorization", "Bearer "+link.Token.Reveal())
	response, err := call(ctx, request)
	if err == nil {
		return response.Msg, nil
	}
	// Only a platform responds with errors in the format of Connect. Anything
	// else behind the address has no code.
	connectErr, ok := errors.AsType[*connect.Error](err)
	switch {
	case !ok || !connect.IsWireError(err) && connectErr.Code() == connect.CodeUnknown:
		return nil, fmt.Errorf("the server does not respond, or is not a platform: %w", withoutURL(err))
	case connect.IsWireError(err) && connectErr.Code() == connect.CodeUnauthenticated:
		return nil, ErrRefused
	case connect.IsWireError(err) && connectErr.Code() == connect.CodePermissionDenied:
		return nil, ErrMayNotRead
	}
	return nil, withoutURL(err)
}

// withoutURL removes the URL from an error: the finding's key has it.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Caller implements World.
func (l *Live) Caller(ctx context.Context, link Link) (Caller, error) {
	client, err := l.client(link)
	if err != nil {
		return Caller{}, err
	}
	me, err := callPlatform(ctx, link, platformv1connect.NewAuthServiceClient(client, link.URL, connect.WithReadMaxBytes(responseBytes)).Me, &platformv1.MeRequest{})
	if err != nil {
		return Caller{}, err
	}
	scopes := me.GetKey().GetScopes()
	// A response without a key is for a session of the user, which has all
	// scopes.
	made := Caller{
		Email: me.GetUser().GetEmail(), Admin: me.GetUser().GetRole() == platformv1.Role_ROLE_ADMIN,
		AccountID: me.GetAccount().GetId(), Account: me.GetAccount().GetName(),
		MayRegister: me.GetKey() == nil || slices.Contains(scopes, platformv1.Scope_SCOPE_ALL) || slices.Contains(scopes, platformv1.Scope_SCOPE_RUNTIME_REGISTER),
	}
	if expires := me.GetKey().GetExpiresAt(); expires != nil {
		made.Expires = expires.AsTime()
	}
	return made, nil
}

// NameFree implements World.
func (l *Live) NameFree(ctx context.Context, link Link, name string) (NameAvailability, error) {
	client, err := l.client(link)
	if err != nil {
		return NameAvailability{}, err
	}
	runtimes := platformv1connect.NewRuntimeServiceClient(client, link.URL, connect.WithReadMaxBytes(responseBytes))
	response, err := callPlatform(ctx, link, runtimes.CheckName, &platformv1.CheckNameRequest{Name: name})
	return NameAvailability{Free: response.GetFree(), Reason: response.GetReason(), Proposal: response.GetProposal()}, err
}

// GitSettings implements World.
func (l *Live) GitSettings(ctx context.Context, link Link) (GitSettings, error) {
	client, err := l.client(link)
	if err != nil {
		return GitSettings{}, err
	}
	git := platformv1connect.NewGitServiceClient(client, link.URL, connect.WithReadMaxBytes(responseBytes))
	response, err := callPlatform(ctx, link, git.GetGitSettings, &platformv1.GetGitSettingsRequest{})
	if err != nil {
		return GitSettings{}, err
	}
	settings := response.GetSettings()
	return GitSettings{Provider: settings.GetProvider(), APIURL: settings.GetApiUrl(), SharedRepository: settings.GetSharedRepository()}, nil
}

// Get implements World. It sends no credentials, and follows no redirect: the
// address itself has to respond.
func (l *Live) Get(ctx context.Context, address string) (HTTPResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, addressTime)
	defer cancel()
	transport := &http.Transport{
		Proxy: l.proxy(), DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, DialContext: l.Dial,
		TLSClientConfig: &tls.Config{RootCAs: l.Roots, MinVersion: tls.VersionTLS12},
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+wire.AppProxyPath, http.NoBody)
	if err != nil {
		return HTTPResponse{}, withoutURL(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return HTTPResponse{}, withoutURL(err)
	}
	// Only status and header matter. The body is drained within a bound.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, responseBytes))
	return HTTPResponse{Status: response.StatusCode, Router: response.Header.Get(wire.RouterHeader)}, response.Body.Close()
}

// GitToken implements World.
func (l *Live) GitToken(ctx context.Context, settings GitSettings, username string, token secret.Text) (gitprovider.TokenReport, error) {
	kind, err := gitprovider.ParseKind(settings.Provider)
	if err != nil {
		return gitprovider.TokenReport{}, err
	}
	// The token is checked without a repository if the account has none that
	// can be parsed, which is a finding of its own.
	repository := ""
	if shared, err := wire.ParseSharedRepository(settings.SharedRepository); err == nil {
		repository = shared.RepoURL
	}
	provider, err := gitprovider.New(gitprovider.Options{
		Kind: kind, APIURL: settings.APIURL, Token: token, Username: username, Repository: repository, Proxy: l.Proxy, CAs: settings.Authorities,
	})
	if err != nil {
		return gitprovider.TokenReport{}, err
	}
	return provider.Check(ctx, gitprovider.RuntimeToken)
}
