package config

import (
	"regexp"

	"slipway.dev/slipway/internal/wire"
)

// accountID matches account IDs: 24 hexadecimal digits. A wrong one fails here
// and not at the platform.
var accountID = regexp.MustCompile(`^[0-9a-f]{24}$`)

// platform checks the options that make an agent a runtime. Their form is
// always checked. Once platform.url is set, a key is required, and a URL for
// every access mode but the tunnel.
func (c *checker) platform(a *Agent) {
	if err := wire.RuntimeName(a.Runtime.Name); err != nil {
		c.add("runtime.name", "cannot be used: %v", err)
	}
	c.oneOf("access.mode", a.Access.Mode, "tunnel", "ingress", "httpRoute", "mesh")
	c.address("access.address", a.Access.Address)
	c.webURL("access.url", a.Access.URL, "https", "http")
	c.webURL("platform.url", a.Platform.URL, "https", "http")
	c.webURL("platform.workflowsURL", a.Platform.WorkflowsURL, "https", "http")
	if a.Access.Mode == "tunnel" && a.Access.URL != "" {
		c.add("access.url", "is set, and access.mode is tunnel, which has no URL of its own: leave it out, or set access.mode to ingress, httpRoute or mesh")
	}
	// Without a platform the rest has no effect, so incomplete options are no
	// error.
	given := &a.Platform
	if given.URL == "" {
		return
	}
	if a.Access.Mode != "tunnel" && a.Access.URL == "" {
		c.add("access.url", "is missing, and access.mode is %s: write the URL at which it serves the runtime", a.Access.Mode)
	}
	if given.AccountID != "" && !accountID.MatchString(given.AccountID) {
		c.add("platform.accountID", "is %s: the ID of an account has 24 hexadecimal digits", quoted(given.AccountID))
	}
	// The key is needed for the registration only, but the checks cannot see
	// whether the agent is registered.
	if given.KeyFile == "" && given.KeySecret == "" {
		c.add("platform.keyFile", "is missing, and so is platform.keySecret: name the file or the Secret with the API key that the runtime is registered with")
	}
	if given.KeyFile != "" && given.KeySecret != "" {
		c.add("platform.keySecret", "is set, and so is platform.keyFile: keep one of them")
	}
	if given.KeySecret != "" && !validSubdomain(given.KeySecret) {
		c.add("platform.keySecret", "is %s, which is not the name of a Secret", quoted(given.KeySecret))
	}
}
