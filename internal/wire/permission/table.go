package permission

import "sync"

// table has every procedure by its path. It is built once and never changed.
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

// look is a procedure that changes nothing, change one that does, quiet one that
// does so all the time.
func look(p Permission) Rule   { return Rule{Permission: p, Read: true} }
func change(p Permission) Rule { return Rule{Permission: p} }
func quiet(p Permission) Rule  { return Rule{Permission: p, Quiet: true} }

func services() []service { return append(platformServices(), runtimeServices()...) }

func platformServices() []service {
	const v1 = "slipway.platform.v1."
	return []service{
		{v1 + "AuthService", map[string]Rule{
			"SignIn":         change(Public),
			"Methods":        look(Public),
			"Me":             look(Self),
			"SignOut":        change(Session),
			"ChangePassword": change(Session),
		}},
		{v1 + "AccountService", map[string]Rule{
			"GetAccount":    look(SignedIn),
			"UpdateAccount": change(Admin),
			"ListUsers":     look(Admin),
			"CreateUser":    change(Admin),
			"UpdateUser":    change(Admin),
			"ResetPassword": change(Admin),
			"DeleteUser":    change(Admin),
		}},
		// The service itself shows and revokes only a user's own keys.
		{v1 + "KeyService", map[string]Rule{
			"CreateKey": change(Operate),
			"ListKeys":  look(SignedIn),
			"RevokeKey": change(Operate),
		}},
		{v1 + "AuditService", map[string]Rule{
			"ListEntries": look(Admin),
		}},
		{v1 + "RuntimeService", map[string]Rule{
			"RegisterRuntime":   change(RegisterRuntime),
			"CheckName":         look(RegisterRuntime),
			"ValidateValues":    look(RegisterRuntime),
			"ListRuntimes":      look(SignedIn),
			"GetRuntime":        look(SignedIn),
			"WatchRuntimes":     look(SignedIn),
			"UpdateRuntime":     change(Admin),
			"DeleteRuntime":     change(Admin),
			"UninstallRuntime":  change(Admin),
			"RevokeCredentials": change(Admin),
		}},
		{v1 + "GitService", map[string]Rule{
			"GetGitSettings":   look(SignedIn),
			"SetGitSettings":   change(Admin),
			"ResetGitSettings": change(Admin),
		}},
		{v1 + "ApplicationService", map[string]Rule{
			"ListApplications":  look(SignedIn),
			"WatchApplications": look(SignedIn),
		}},
		{v1 + "AgentService", map[string]Rule{
			// It shows a refresh token, which the procedure checks.
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
			"ListApplications":  look(SignedIn),
			"GetApplication":    look(SignedIn),
			"WatchApplication":  look(SignedIn),
			"GetTree":           look(SignedIn),
			"WatchTree":         look(SignedIn),
			"GetResource":       look(SignedIn),
			"Diff":              look(SignedIn),
			"GetHistory":        look(SignedIn),
			"ListEvents":        look(SignedIn),
			"WatchEvents":       look(SignedIn),
			"Logs":              look(SignedIn),
			"Sync":              change(Operate),
			"Rollback":          change(Operate),
			"Terminate":         change(Operate),
			"Refresh":           change(Operate),
			"DeleteApplication": change(Operate),
		}},
		{v1 + "RuntimeService", map[string]Rule{
			"GetInfo":                look(SignedIn),
			"ComponentLogs":          look(Admin),
			"ConfigureAsApplication": change(Admin),
			// It tells of nodes, classes and certificates of the cluster.
			"Preflight": look(Admin),
		}},
		// A Git Source decides what is deployed, so it is a setting of the runtime.
		{v1 + "GitSourceService", map[string]Rule{
			"ListGitSources":  look(SignedIn),
			"CreateGitSource": change(Admin),
			"EditGitSource":   change(Admin),
			"DeleteGitSource": change(Admin),
		}},
		{v1 + "ClusterService", map[string]Rule{
			"ListClusters":  look(SignedIn),
			"AddCluster":    change(Admin),
			"RemoveCluster": change(Admin),
		}},
		// Register and OAuth store the token of the user who asks. OAuth for the
		// runtime's own token is for admins: the service checks that.
		{v1 + "IntegrationService", map[string]Rule{
			"ListIntegrations":      look(SignedIn),
			"AddIntegration":        change(Admin),
			"EditIntegration":       change(Admin),
			"RemoveIntegration":     change(Admin),
			"Register":              change(Operate),
			"Deregister":            change(Operate),
			"SetRuntimeCredentials": change(Admin),
			"GetRuntimeCredentials": look(Admin),
			"BeginOAuth":            change(Operate),
			"FinishOAuth":           change(Operate),
		}},
		// What is served is what Ingresses of Applications say, which each user sees.
		{v1 + "TrafficService", map[string]Rule{
			"WatchTraffic": look(SignedIn),
			"Explain":      look(SignedIn),
		}},
	}
}
