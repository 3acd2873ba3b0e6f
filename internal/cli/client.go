package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

const (
	// platformTimeout bounds one question to a platform or, through it, to a runtime.
	platformTimeout = 30 * time.Second
	// platformDialTimeout bounds connecting, so that a wrong address is told soon.
	platformDialTimeout = 10 * time.Second
	// mostPages bounds a list: a platform that always has another page is broken.
	mostPages = 10000
	// pageSize is how many entries are asked for at once.
	pageSize = 200
)

// platformChoice is which platform a command asks, and which runtime of it.
type platformChoice struct {
	context string
	url     string
	runtime string
}

// add adds the flags for the platform.
func (p *platformChoice) add(flags *pflag.FlagSet) {
	flags.StringVar(&p.context, "platform-context", "", "context of the platform to ask (default the current one; slipway config list shows them)")
	flags.StringVar(&p.url, "platform-url", "", "URL of the platform to ask; the key is in "+appKeyVariable)
	_ = flags.MarkHidden("platform-url") // it is there
}

// addRuntime adds the flag for the runtime too.
func (p *platformChoice) addRuntime(flags *pflag.FlagSet) {
	p.add(flags)
	flags.StringVar(&p.runtime, "runtime", "", "runtime to ask (default "+runtimeVariable+", that of the context, or the only one)")
}

// platformGroup is a command that has others, with the flags for the platform.
func platformGroup(use, short string, choice *platformChoice, withRuntime bool) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	if withRuntime {
		choice.addRuntime(command.PersistentFlags())
		_ = command.RegisterFlagCompletionFunc("runtime", choice.completeRuntimes) // the flag is there
	} else {
		choice.add(command.PersistentFlags())
	}
	_ = command.RegisterFlagCompletionFunc("platform-context", completeContexts) // the flag is there
	return command
}

// errNoPlatform is that no context is current and nothing else names a platform.
var errNoPlatform = errors.New("no platform is chosen: run slipway login URL, choose a context with slipway config use, or set " + urlVariable + " and " + appKeyVariable)

// resolve finds the platform and the key: a flag wins over the environment, and
// that over the current context.
func (p *platformChoice) resolve() (platformContext, error) {
	key := secret.New(strings.TrimSpace(os.Getenv(appKeyVariable)))
	address := cmp.Or(p.url, os.Getenv(urlVariable))
	if p.context == "" && address != "" {
		if key.IsZero() {
			return platformContext{}, usageError{fmt.Errorf("there is no key for the platform: put one into %s", appKeyVariable)}
		}
		return platformContext{URL: address, Key: key}, nil
	}
	book, err := readContexts()
	if err != nil {
		return platformContext{}, usageError{err}
	}
	name := cmp.Or(p.context, book.Current)
	if name == "" {
		return platformContext{}, usageError{errNoPlatform}
	}
	found := book.find(name)
	if found == nil {
		return platformContext{}, usageError{fmt.Errorf("there is no context %s: slipway config list shows those that there are", printable(name))}
	}
	chosen := *found
	if p.context == "" && !key.IsZero() {
		chosen.Key = key
	}
	if chosen.Key.IsZero() {
		return platformContext{}, usageError{fmt.Errorf("the context %s has no key: run slipway login %s --name %s", printable(name), chosen.URL, printable(name))}
	}
	return chosen, nil
}

// open makes what asks the platform. It sends nothing yet.
func (p *platformChoice) open() (*platformClient, error) {
	chosen, err := p.resolve()
	if err != nil {
		return nil, err
	}
	client, err := newPlatformClient(chosen)
	if err != nil {
		return nil, usageError{err}
	}
	client.runtime = p.runtime
	return client, nil
}

// platformClient asks one platform as one person.
type platformClient struct {
	platformContext
	address *url.URL
	http    *http.Client
	// roots may vouch for it; nil are those of the machine.
	roots *x509.CertPool
	// runtime is what a flag named.
	runtime string
}

func newPlatformClient(chosen platformContext) (*platformClient, error) {
	address, err := platformAddress(chosen.URL)
	if err != nil {
		return nil, err
	}
	roots, err := platformRoots(chosen.CAFile)
	if err != nil {
		return nil, err
	}
	transport := platformTransport(roots)
	var next http.RoundTripper = transport
	if !chosen.Key.IsZero() {
		next = &keyTransport{key: chosen.Key, host: address.Host, next: transport}
	}
	return &platformClient{platformContext: chosen, address: address, roots: roots, http: &http.Client{Transport: next, CheckRedirect: noRedirect}}, nil
}

// noRedirect: an API does not send elsewhere; what does is not the platform.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// platformRoots are the authorities of a file, nil without one.
func platformRoots(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	authorities, err := readAuthorities(caFile)
	if err != nil {
		return nil, fmt.Errorf("the authorities of the platform: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	return pool, nil
}

// platformTransport verifies certificates, with the system's authorities when there
// are no others.
func platformTransport(roots *x509.CertPool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: platformDialTimeout, KeepAlive: platformDialTimeout}).DialContext
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport
}

// checked is the platform as checks look at it.
func (c *platformClient) checked() *preflight.Platform {
	return &preflight.Platform{URL: c.base(), Auth: c.auth(), Runtimes: c.runtimes(), Roots: c.roots}
}

func (c *platformClient) close() { c.http.CloseIdleConnections() }

func (c *platformClient) base() string { return strings.TrimSuffix(c.address.String(), "/") }

// runtimeBase is where the platform forwards to a runtime.
func (c *platformClient) runtimeBase(runtime string) string {
	return strings.TrimSuffix(c.address.JoinPath(wire.RuntimesPath, runtime, wire.AppProxyPath).String(), "/")
}

func readLimit() connect.ClientOption { return connect.WithReadMaxBytes(maxRemoteAnswer) }

func (c *platformClient) auth() platformv1connect.AuthServiceClient {
	return platformv1connect.NewAuthServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) accounts() platformv1connect.AccountServiceClient {
	return platformv1connect.NewAccountServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) keys() platformv1connect.KeyServiceClient {
	return platformv1connect.NewKeyServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) audit() platformv1connect.AuditServiceClient {
	return platformv1connect.NewAuditServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) runtimes() platformv1connect.RuntimeServiceClient {
	return platformv1connect.NewRuntimeServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) git() platformv1connect.GitServiceClient {
	return platformv1connect.NewGitServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) applications() platformv1connect.ApplicationServiceClient {
	return platformv1connect.NewApplicationServiceClient(c.http, c.base(), readLimit())
}

func (c *platformClient) runtimeAPI(runtime string) runtimev1connect.RuntimeServiceClient {
	return runtimev1connect.NewRuntimeServiceClient(c.http, c.runtimeBase(runtime), readLimit())
}

func (c *platformClient) gitSources(runtime string) runtimev1connect.GitSourceServiceClient {
	return runtimev1connect.NewGitSourceServiceClient(c.http, c.runtimeBase(runtime), readLimit())
}

func (c *platformClient) clusters(runtime string) runtimev1connect.ClusterServiceClient {
	return runtimev1connect.NewClusterServiceClient(c.http, c.runtimeBase(runtime), readLimit())
}

func (c *platformClient) integrations(runtime string) runtimev1connect.IntegrationServiceClient {
	return runtimev1connect.NewIntegrationServiceClient(c.http, c.runtimeBase(runtime), readLimit())
}

// allRuntimes lists the runtimes of the account.
func (c *platformClient) allRuntimes(ctx context.Context) ([]*platformv1.Runtime, error) {
	return everyPage(func(page string) ([]*platformv1.Runtime, string, error) {
		answer, err := ask(ctx, c, c.runtimes().ListRuntimes, &platformv1.ListRuntimesRequest{PageSize: pageSize, PageToken: page})
		return answer.GetRuntimes(), answer.GetNextPageToken(), err
	})
}

// chosenRuntime is the runtime that a command is for.
func (c *platformClient) chosenRuntime(ctx context.Context) (string, error) {
	name := cmp.Or(c.runtime, os.Getenv(runtimeVariable), c.Runtime)
	if name != "" {
		if err := wire.RuntimeName(name); err != nil {
			return "", usageError{err}
		}
		return name, nil
	}
	all, err := c.allRuntimes(ctx)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", errors.New("the account has no runtime yet: slipway runtime install says how to make one")
	case len(all) == 1:
		return all[0].GetName(), nil
	}
	var names []string
	for _, one := range all {
		names = append(names, one.GetName())
	}
	slices.Sort(names)
	return "", usageError{fmt.Errorf("the account has %d runtimes (%s): name one with --runtime, or run slipway config set-runtime NAME",
		len(names), printable(shortList(names)))}
}

// shortList names some of many.
func shortList(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
