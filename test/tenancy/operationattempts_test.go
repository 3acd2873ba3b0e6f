package tenancy

// operationAttempts forge what clients and the runtime write into an
// Application: the requested operation, and the one that seems to run. NOW is the
// time of the attempt, and BEFORE two hours ago.
func operationAttempts() []attempt {
	const (
		refused = "the sources of the operation are refused"
		stolen  = `{"repoURL": "http://localhost/corp/NAME", "path": ".", "targetRevision": "main"}`
		own     = `{"repoURL": "http://localhost/evil/apps", "path": "NAME", "targetRevision": "main"}`
		object  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
		window  = "a sync window is in the way"
	)
	running := func(began, operation, result string) string {
		return `{"status": {"operationState": {"phase": "Running", "startedAt": "` + began + `", "operation": ` + operation + result + `}}}`
	}
	of := func(project string) string { return app{project: project, policy: byHand}.yaml() }
	return []attempt{
		{name: "operation-source", git: object, applies: of(evil), then: `{"operation": {"sync": {"source": ` + stolen + `}}}`, reason: refused, proof: unrequested("corp/operation-source")},
		{name: "operation-sources", git: object, applies: of(evil), then: `{"operation": {"sync": {"sources": [` + own + `, ` + stolen + `], "revisions": ["main", "main"]}}}`,
			reason: refused, proof: unrequested("corp/operation-sources")},
		{name: "operation-manifests", git: object, applies: of(evil), then: `{"operation": {"sync": {"manifests": ["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}"]}}}`,
			reason: "objects come from the source, so that Git has what is deployed", proof: absent("ConfigMap evil/operation-manifests")},
		{name: "operation-in-window", git: object, applies: of("frozen"), then: `{"operation": {"sync": {}}}`, reason: window, proof: absent("ConfigMap evil/operation-in-window")},
		{name: "status-source", git: object, applies: of(evil), thenStatus: running("NOW", `{"sync": {}}`, `, "syncResult": {"revision": "main", "source": `+stolen+`}`),
			reason: refused, proof: unrequested("corp/status-source")},
		{name: "status-sources", git: object, applies: of(evil), thenStatus: running("NOW", `{"sync": {"sources": [`+stolen+`], "revisions": ["main"]}}`, ""),
			reason: refused, proof: unrequested("corp/status-sources")},
		{name: "status-other-result", git: object, applies: of(evil), thenStatus: running("NOW", `{"sync": {"source": `+own+`}}`, `, "syncResult": {"revision": "main", "source": `+stolen+`}`),
			reason: "its result is of other sources than it names", proof: unrequested("corp/status-other-result")},
		{name: "status-automated", git: object, applies: of(evil), thenStatus: running("NOW", `{"initiatedBy": {"automated": true}, "sync": {"source": `+stolen+`}}`, ""),
			reason: "an automated sync names no sources", proof: unrequested("corp/status-automated")},
		{name: "status-in-window", git: object, applies: of("frozen"), thenStatus: running("BEFORE", `{"sync": {}}`, ""),
			reason: window, proof: absent("ConfigMap evil/status-in-window")},
		{name: "status-in-future", git: object, applies: of("frozen"), thenStatus: running("2099-01-01T00:00:00Z", `{"sync": {}}`, ""),
			reason: "it starts in the future", proof: absent("ConfigMap evil/status-in-future")},
	}
}
