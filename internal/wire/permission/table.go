package permission

import "sync"

// table maps procedure paths to rules. It is built once and never changes.
var table = sync.OnceValue(func() map[string]Rule {
	all := make(map[string]Rule)
	for _, service := range services() {
		for method, rule := range service.methods {
			all["/"+service.name+"/"+method] = rule
		}
	}
	return all
})

type service struct {
	name    string
	methods map[string]Rule
}

// read is a procedure without side effects, change one with side effects, quiet
// one that is called continuously.
func read(p Permission) Rule   { return Rule{Permission: p, Read: true} }
func change(p Permission) Rule { return Rule{Permission: p} }
func quiet(p Permission) Rule  { return Rule{Permission: p, Quiet: true} }

func services() []service { return append(platformServices(), runtimeServices()...) }

func platformServices() []service {
	const v1 = "slipway.platform.v1."
	return []service{
		{v1 + "AuthService", map[string]Rule{
			"SignIn":         change(Public),
			"Methods":        read(Public),
			"Me":             read(Self),
			"SignOut":        change(Session),
			"ChangePassword": change(Session),
		}},
		{v1 + "AccountService", map[string]Rule{
			"GetAccount":    read(SignedIn),
			"UpdateAccount": change(Admin),
			"ListUsers":     read(Admin),
			"CreateUser":    change(Admin),
			"UpdateUser":    change(Admin),
			"ResetPassword": change(Admin),
			"DeleteUser":    change(Admin),
		}},
		// The service itself limits users to their own keys.
		{v1 + "KeyService", map[string]Rule{
			"CreateKey": change(Operate),
			"ListKeys":  read(SignedIn),
			"RevokeKey": change(Operate),
		}},
		{v1 + "AuditService", map[string]Rule{
			"ListEntries": read(Admin),
		}},
		{v1 + "RuntimeService", map[string]Rule{
			"RegisterRuntime":   change(RegisterRuntime),
			"CheckName":         read(RegisterRuntime),
			"ValidateValues":    read(RegisterRuntime),
			"ListRuntimes":      read(SignedIn),
			"GetRuntime":        read(SignedIn),
			"WatchRuntimes":     read(SignedIn),
			"UpdateRuntime":     change(Admin),
			"DeleteRuntime":     change(Admin),
			"UninstallRuntime":  change(Admin),
			"RevokeCredentials": change(Admin),
		}},
		{v1 + "GitService", map[string]Rule{
			"GetGitSettings":   read(SignedIn),
			"SetGitSettings":   change(Admin),
			"ResetGitSettings": change(Admin),
		}},
		{v1 + "ApplicationService", map[string]Rule{
			"ListApplications":  read(SignedIn),
			"WatchApplications": read(SignedIn),
		}},
		{v1 + "AgentService", map[string]Rule{
			// The request contains a refresh token, which the procedure
			// verifies.
			"RenewCredential": quiet(Public),
			"Heartbeat":       quiet(RuntimeOnly),
			"Report":          quiet(RuntimeOnly),
			"Unregister":      change(RuntimeOnly),
		}},
	}
}

func runtimeServices() []service {
	const v1 = "slipway.runtime.v1."
	return []service{
		{v1 + "ApplicationService", map[string]Rule{
			"ListApplications":  read(SignedIn),
			"GetApplication":    read(SignedIn),
			"WatchApplication":  read(SignedIn),
			"GetTree":           read(SignedIn),
			"WatchTree":         read(SignedIn),
			"GetResource":       read(SignedIn),
			"Diff":              read(SignedIn),
			"GetHistory":        read(SignedIn),
			"ListEvents":        read(SignedIn),
			"WatchEvents":       read(SignedIn),
			"Logs":              read(SignedIn),
			"Sync":              change(Operate),
			"Rollback":          change(Operate),
			"Terminate":         change(Operate),
			"Refresh":           change(Operate),
			"DeleteApplication": change(Operate),
		}},
		{v1 + "RuntimeService", map[string]Rule{
			"GetInfo":                read(SignedIn),
			"ComponentLogs":          read(Admin),
			"ConfigureAsApplication": change(Admin),
			// The results contain nodes, classes and certificates of the
			// cluster.
			"Preflight": read(Admin),
		}},
		// A Git Source determines what is deployed, so it is a setting of the
		// runtime.
		{v1 + "GitSourceService", map[string]Rule{
			"ListGitSources":  read(SignedIn),
			"CreateGitSource": change(Admin),
			"EditGitSource":   change(Admin),
			"DeleteGitSource": change(Admin),
		}},
		{v1 + "ClusterService", map[string]Rule{
			"ListClusters":  read(SignedIn),
			"AddCluster":    change(Admin),
			"RemoveCluster": change(Admin),
		}},
		// Register and OAuth store the token of the calling user. OAuth for the
		// runtime's own token is limited to admins by the service.
		{v1 + "IntegrationService", map[string]Rule{
			"ListIntegrations":      read(SignedIn),
			"AddIntegration":        change(Admin),
			"EditIntegration":       change(Admin),
			"RemoveIntegration":     change(Admin),
			"Register":              change(Operate),
			"Deregister":            change(Operate),
			"SetRuntimeCredentials": change(Admin),
			"GetRuntimeCredentials": read(Admin),
			"BeginOAuth":            change(Operate),
			"FinishOAuth":           change(Operate),
		}},
		// Traffic follows from Ingresses of Applications, which each user can
		// see.
		{v1 + "TrafficService", map[string]Rule{
			"WatchTraffic": read(SignedIn),
			"Explain":      read(SignedIn),
		}},
	}
}
