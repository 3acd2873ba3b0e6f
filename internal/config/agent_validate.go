package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/secret"
)

// everyNamespace selects all namespaces in applications.namespaces.
const everyNamespace = "*"

// maxWorkers bounds worker counts of every kind: a larger number is more likely
// a typo than a machine that benefits from it.
const maxWorkers = 256

// Validate checks every option and reports all problems at once, each with the
// name of the option and the fix. It opens no file and sends no request.
func (a *Agent) Validate() error {
	c := &checker{}
	c.process(a.Log, a.Admin, a.Health)
	c.address("webhooks.address", a.Webhooks.Address)
	c.endpoint("kubernetes.", a.Kubernetes.Endpoint)
	// A file made by --print-config has redacted secrets; it must not be used
	// as is.
	if a.Kubernetes.Token.Reveal() == secret.Redacted {
		c.add("kubernetes.token", "is the text that stands for a hidden token in printed options: set the token itself")
	}
	c.applications(&a.Applications)
	c.division(a)
	c.above("imageUpdates.interval", a.ImageUpdates.Interval)
	c.above("sources.fetchTimeout", a.Sources.FetchTimeout)
	c.size("sources.indexLimit", a.Sources.IndexLimit, 64<<10)
	c.size("sources.diskPerProject", a.Sources.DiskPerProject, 64<<20)
	c.size("sources.diskLimit", a.Sources.DiskLimit, 64<<20)
	c.sourceCredentials(&a.Sources.Credentials, a.Platform.URL != "")
	c.render(&a.Render)
	c.above("plugins.timeout", a.Plugins.Timeout)
	if !validSubdomain(a.Webhooks.Secret) {
		c.add("webhooks.secret", "is %s, which is not the name of a Secret: write one such as argocd-secret", quoted(a.Webhooks.Secret))
	}
	if !validSubdomain(a.LeaderElection.LeaseName) {
		c.add("leaderElection.leaseName", "is %s, which is not the name of a Lease: write one such as slipway-agent", quoted(a.LeaderElection.LeaseName))
	}
	c.platform(a)
	c.agentTraffic(&a.Traffic)
	c.networks("outbound.allow", a.Outbound.Allow)
	return errors.Join(c.findings...)
}

// validSubdomain reports whether a name is a DNS subdomain of RFC 1123, as
// Kubernetes requires of most names.
func validSubdomain(name string) bool { return len(name) <= 253 && dnsSubdomain.MatchString(name) }

// sourceCredentials checks that the credential in a file has a password file,
// and a URL unless the runtime joins a platform: the account's Git settings
// name its server then.
func (c *checker) sourceCredentials(given *SourceCredentials, joins bool) {
	c.webURL("sources.credentials.url", given.URL, "https", "http")
	switch {
	case given.URL == "" && given.PasswordFile != "" && !joins:
		c.add("sources.credentials.url", "is missing, and sources.credentials.passwordFile is set: write what the addresses of the repositories begin with")
	case given.URL != "" && given.PasswordFile == "":
		c.add("sources.credentials.passwordFile", "is missing, and sources.credentials.url is set: name the file with the password or token")
	}
}

// process checks the options that all roles have. The admin server must have a
// loopback address, because it has no authentication.
func (c *checker) process(log Log, admin AdminServer, health HealthServer) {
	c.oneOf("log.level", log.Level, "debug", "info", "warn", "error")
	c.oneOf("log.format", log.Format, "auto", "text", "json")
	if address, ok := c.address("admin.address", admin.Address); ok && !address.Addr().IsLoopback() {
		c.add("admin.address", "is %s, which others can reach: profiles show the contents of memory, so use a loopback address such as 127.0.0.1:8090", quoted(admin.Address))
	}
	c.address("health.address", health.Address)
}

// applications checks the namespaces, intervals and workers of Applications.
func (c *checker) applications(given *Applications) {
	const prefix = "applications."
	if !validLabel(given.ControlNamespace) {
		c.add(prefix+"controlNamespace", "is %s, which is not the name of a namespace: lower-case letters, digits and dashes, at most 63 characters", quoted(given.ControlNamespace))
	}
	c.namespaces(prefix+"namespaces", given.Namespaces, everyNamespace)
	c.namespaces(prefix+"destinations", given.Destinations, "")
	c.above(prefix+"pollInterval", given.PollInterval)
	c.notNegative(prefix+"pollJitter", given.PollJitter)
	c.within(prefix+"workers", given.Workers, 1, maxWorkers)
}

// minDivideTimeout lets a replica renew its Lease a few times before it expires.
const minDivideTimeout = Duration(3 * time.Second)

// division checks that replicas which divide the Applications have a Lease, by whose name
// they find each other.
func (c *checker) division(a *Agent) {
	if a.Applications.DivideTimeout < minDivideTimeout {
		c.add("applications.divideTimeout", "is %s: it has to be at least %s", a.Applications.DivideTimeout, minDivideTimeout)
	}
	switch {
	case !a.Applications.Divide:
	case !a.LeaderElection.Enabled:
		c.add("applications.divide", "is true, and leaderElection.enabled is false: replicas that divide Applications need Leases")
	case !validLabel(a.LeaderElection.LeaseName):
		c.add("leaderElection.leaseName", "is %s, and applications.divide needs a name of lower-case letters, digits and dashes, at most 63 characters", quoted(a.LeaderElection.LeaseName))
	}
}

// namespaces checks a list of names. all is the value that selects every
// namespace; empty if the option has none.
func (c *checker) namespaces(option string, names []string, all string) {
	seen := map[string]bool{}
	// A repeated invalid name is not reported as a duplicate in addition.
	for _, namespace := range names {
		if (all == "" || namespace != all) && !validLabel(namespace) {
			c.add(option, "has %s, which is not the name of a namespace: lower-case letters, digits and dashes, at most 63 characters", quoted(namespace))
		} else if seen[namespace] {
			c.add(option, "has %s twice: keep one", quoted(namespace))
		}
		seen[namespace] = true
	}
}

// render checks the limits of rendering. The minimum of each is what a small
// chart needs, so that a missing unit (512 for 512Mi) is an error.
func (c *checker) render(given *RenderLimits) {
	const prefix = "render."
	c.within(prefix+"workers", given.Workers, 0, maxWorkers)
	c.above(prefix+"timeout", given.Timeout)
	c.size(prefix+"memoryLimit", given.MemoryLimit, 64<<20)
	c.size(prefix+"outputLimit", given.OutputLimit, 64<<10)
}

// size checks a number of bytes and its minimum.
func (c *checker) size(option, text string, least int64) {
	number, err := ParseSize(text)
	switch {
	case err != nil:
		c.add(option, "is %s: %v", quoted(text), err)
	case number < least:
		c.add(option, "is %s: it has to be at least %d", quoted(text), least)
	}
}

// above checks that a duration is positive: a timeout or interval of 0 would
// fail or busy-loop.
func (c *checker) above(option string, d Duration) {
	if d <= 0 {
		c.add(option, "is %s: it has to be above 0", d)
	}
}

// ParseSize parses a number of bytes: 1048576, 512Ki, 512Mi or 2Gi. It refuses
// negative numbers and overflows.
func ParseSize(text string) (int64, error) {
	number, unit := text, int64(1)
	for i, suffix := range []string{"Ki", "Mi", "Gi"} {
		if rest, found := strings.CutSuffix(text, suffix); found {
			number, unit = rest, 1<<(10*(i+1))
		}
	}
	// 63 bits keep the result within int64.
	count, err := strconv.ParseUint(number, 10, 63)
	if err != nil || count > math.MaxInt64/uint64(unit) {
		return 0, errors.New("write a number of bytes such as 1048576, 512Mi or 2Gi")
	}
	return int64(count) * unit, nil
}
