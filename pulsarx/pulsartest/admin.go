package pulsartest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const maxAdminBody = 1 << 20

// adminRequest is a call of an admin route, with what its path and body say.
type adminRequest struct {
	*http.Request
	topic topicName // of routes about a topic
	sub   string
	body  []byte
}

// adminError is a refusal of an admin route.
type adminError struct {
	status int
	reason string
}

func (e *adminError) Error() string { return e.reason }

func adminRefuse(status int, format string, args ...any) error {
	return &adminError{status: status, reason: fmt.Sprintf(format, args...)}
}

func topicMissing(name topicName) error {
	return adminRefuse(http.StatusNotFound, "Topic %s not found", name.full)
}

// adminFunc serves a route under Broker.mu. Its result goes out as JSON; nil is 204, no content.
type adminFunc func(b *Broker, r *adminRequest) (any, error)

// adminRoutes are the routes below /admin/v2 that the broker has. Where a route is about a topic, {t}/{n}/{topic} name it.
var adminRoutes = map[string]adminFunc{
	"GET /clusters":                                          func(*Broker, *adminRequest) (any, error) { return []string{clusterName}, nil },
	"GET /brokers/health":                                    func(*Broker, *adminRequest) (any, error) { return plainText("ok"), nil },
	"GET /brokers/version":                                   func(*Broker, *adminRequest) (any, error) { return plainText("4.0.8"), nil },
	"GET /clusters/{c}/namespaceIsolationPolicies":           adminIsolation,
	"GET /clusters/{c}/namespaceIsolationPolicies/{name}":    adminIsolation,
	"POST /clusters/{c}/namespaceIsolationPolicies/{name}":   adminIsolation,
	"DELETE /clusters/{c}/namespaceIsolationPolicies/{name}": adminIsolation,
	"GET /tenants":                                           adminTenants,
	"GET /tenants/{t}":                                       adminTenant,
	"PUT /tenants/{t}":                                       adminCreateTenant,
	"POST /tenants/{t}":                                      adminUpdateTenant,
	"DELETE /tenants/{t}":                                    adminDeleteTenant,
	"GET /namespaces/{t}":                                    adminNamespaces,
	"GET /namespaces/{t}/{n}":                                adminNamespace,
	"PUT /namespaces/{t}/{n}":                                adminCreateNamespace,
	"DELETE /namespaces/{t}/{n}":                             adminDeleteNamespace,
	"GET /namespaces/{t}/{n}/topics":                         adminTopics,
	"GET /persistent/{t}/{n}":                                adminTopics,
	"GET /persistent/{t}/{n}/partitioned":                    adminPartitionedTopics,

	"PUT /persistent/{t}/{n}/{topic}":                                                  adminCreateTopic,
	"DELETE /persistent/{t}/{n}/{topic}":                                               adminDeleteTopic,
	"GET /persistent/{t}/{n}/{topic}/partitions":                                       adminPartitions,
	"PUT /persistent/{t}/{n}/{topic}/partitions":                                       adminCreatePartitioned,
	"POST /persistent/{t}/{n}/{topic}/partitions":                                      adminGrow,
	"DELETE /persistent/{t}/{n}/{topic}/partitions":                                    adminDeletePartitioned,
	"GET /persistent/{t}/{n}/{topic}/stats":                                            adminStats,
	"GET /persistent/{t}/{n}/{topic}/partitioned-stats":                                adminPartitionedStats,
	"GET /persistent/{t}/{n}/{topic}/internalStats":                                    adminInternalStats,
	"GET /persistent/{t}/{n}/{topic}/lastMessageId":                                    adminLastMessageID,
	"GET /persistent/{t}/{n}/{topic}/messageid/{millis}":                               adminMessageIDAt,
	"PUT /persistent/{t}/{n}/{topic}/unload":                                           adminUnload,
	"POST /persistent/{t}/{n}/{topic}/terminate":                                       adminTerminate,
	"PUT /persistent/{t}/{n}/{topic}/compaction":                                       adminCompact,
	"GET /persistent/{t}/{n}/{topic}/compaction":                                       adminCompaction,
	"GET /persistent/{t}/{n}/{topic}/subscriptions":                                    adminSubscriptions,
	"PUT /persistent/{t}/{n}/{topic}/subscription/{sub}":                               adminSubscribe,
	"DELETE /persistent/{t}/{n}/{topic}/subscription/{sub}":                            adminUnsubscribe,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/resetcursor/{ms}":             adminResetToTime,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/resetcursor":                  adminResetToID,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/skip/{count}":                 adminSkip,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/skip_all":                     adminSkipAll,
	"GET /persistent/{t}/{n}/{topic}/subscription/{sub}/replicatedSubscriptionStatus":  adminReplicated,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/replicatedSubscriptionStatus": adminReplicated,

	"GET /schemas/{t}/{n}/{topic}/schema":           adminSchema,
	"GET /schemas/{t}/{n}/{topic}/schema/{version}": adminSchema,
	"GET /schemas/{t}/{n}/{topic}/schemas":          adminSchemas,
	"POST /schemas/{t}/{n}/{topic}/schema":          adminAddSchema,
	"POST /schemas/{t}/{n}/{topic}/version":         adminSchemaVersion,
	"POST /schemas/{t}/{n}/{topic}/compatibility":   adminCompatible,
	"DELETE /schemas/{t}/{n}/{topic}/schema":        adminDeleteSchema,
}

const clusterName = "standalone"

type plainText string

// accepted is a result that goes out as 202.
type accepted struct{ any }

func (b *Broker) adminHandler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve adminFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			result, err := b.serveAdmin(serve, r)
			writeAdmin(w, result, err)
		})
	}
	for _, routes := range []map[string]adminFunc{adminRoutes, policyRoutes()} {
		for route, serve := range routes {
			method, path, _ := strings.Cut(route, " ")
			handle(method+" /admin/v2"+path, serve)
			if rest, ok := strings.CutPrefix(path, "/persistent/"); ok && transientRoute(rest) {
				handle(method+" /admin/v2/non-persistent/"+rest, serve)
			}
		}
	}
	for _, domain := range domains {
		handle("GET /lookup/v2/topic/"+domain+"/{t}/{n}/{topic}", adminLookup)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeAdmin(w, nil, adminRefuse(http.StatusNotFound, "pulsartest has no route %s %s", r.Method, r.URL.Path))
	})
	return mux
}

// transientRoute tells whether a route about a topic is one of non-persistent topics too: not those that are about what is stored.
func transientRoute(path string) bool {
	for _, last := range []string{"{n}", "partitioned", "{topic}", "partitions", "stats", "partitioned-stats", "unload", "subscriptions"} {
		if strings.HasSuffix(path, "/"+last) {
			return true
		}
	}
	return false
}

// domain is what kind of topics a route is about.
func (r *adminRequest) domain() string {
	if strings.HasPrefix(r.URL.Path, "/admin/v2/non-persistent/") || strings.HasPrefix(r.URL.Path, "/lookup/v2/topic/non-persistent/") {
		return nonPersistent
	}
	return persistent
}

func (b *Broker) serveAdmin(serve adminFunc, r *http.Request) (any, error) {
	if b.authenticate(requestCredentials(r)) != nil {
		return nil, adminRefuse(http.StatusUnauthorized, "Authentication required")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAdminBody+1))
	if err != nil || len(body) > maxAdminBody {
		return nil, adminRefuse(http.StatusBadRequest, "Body cannot be read, or is larger than %d bytes", maxAdminBody)
	}
	sub, err := url.QueryUnescape(r.PathValue("sub")) // a second time, as Pulsar does
	if err != nil {
		return nil, err
	}
	q := &adminRequest{Request: r, sub: sub, body: body}
	if local := r.PathValue("topic"); local != "" {
		q.topic, err = parseTopic(q.domain() + "://" + q.namespaceName() + "/" + local)
		if err != nil {
			return nil, adminRefuse(http.StatusPreconditionFailed, "Topic name is not valid")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.topic.full != "" && b.namespaces[q.topic.namespace] == nil {
		return nil, adminRefuse(http.StatusNotFound, "Namespace not found")
	}
	return serve(b, q)
}

func writeAdmin(w http.ResponseWriter, result any, err error) {
	status := http.StatusOK
	var refused *adminError
	switch {
	case errors.As(err, &refused):
		status, result = refused.status, map[string]string{"reason": refused.reason}
	case err != nil:
		status, result = http.StatusInternalServerError, map[string]string{"reason": err.Error()}
	case result == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if a, ok := result.(accepted); ok {
		status, result = http.StatusAccepted, a.any
	}
	var body []byte
	if text, ok := result.(plainText); ok {
		body = []byte(text)
	} else if body, err = json.Marshal(result); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has left misses it
}

func (r *adminRequest) namespaceName() string { return r.PathValue("t") + "/" + r.PathValue("n") }

// number reads a number in the path.
func (r *adminRequest) number(name string) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil {
		return 0, adminRefuse(http.StatusNotFound, "%s is no number", name)
	}
	return n, nil
}

// force says whether connected clients are to be disconnected.
func (r *adminRequest) force() bool { return r.URL.Query().Get("force") == "true" }

func adminTenants(b *Broker, _ *adminRequest) (any, error) {
	return slices.Sorted(maps.Keys(b.tenants)), nil
}

func adminTenant(b *Broker, r *adminRequest) (any, error) {
	if t := b.tenants[r.PathValue("t")]; t != nil {
		return t, nil
	}
	return nil, adminRefuse(http.StatusNotFound, "Tenant does not exist")
}

// tenant reads the body of a route, which has a cluster at least.
func (r *adminRequest) tenant() (*tenant, error) {
	t := &tenant{}
	if len(r.body) > 0 && json.Unmarshal(r.body, t) != nil {
		return nil, adminRefuse(http.StatusBadRequest, "The body must be a tenant")
	}
	switch {
	case len(t.Clusters) == 0:
		return nil, adminRefuse(http.StatusPreconditionFailed, "Clusters can not be empty")
	case slices.ContainsFunc(t.Clusters, func(c string) bool { return c != clusterName }):
		return nil, adminRefuse(http.StatusPreconditionFailed, "Clusters do not exist")
	}
	return t, nil
}

func adminCreateTenant(b *Broker, r *adminRequest) (any, error) {
	name := r.PathValue("t")
	switch {
	case !validName(name):
		return nil, adminRefuse(http.StatusPreconditionFailed, "Tenant name is not valid")
	case b.tenants[name] != nil:
		return nil, adminRefuse(http.StatusConflict, "Tenant already exist")
	}
	t, err := r.tenant()
	if err == nil {
		b.tenants[name] = t
	}
	return nil, err
}

func adminUpdateTenant(b *Broker, r *adminRequest) (any, error) {
	name := r.PathValue("t")
	if b.tenants[name] == nil {
		return nil, adminRefuse(http.StatusNotFound, "Tenant does not exist")
	}
	t, err := r.tenant()
	if err == nil {
		b.tenants[name] = t
	}
	return nil, err
}

func adminDeleteTenant(b *Broker, r *adminRequest) (any, error) {
	name := r.PathValue("t")
	switch {
	case b.tenants[name] == nil:
		return nil, adminRefuse(http.StatusNotFound, "Tenant doesn't exist")
	case len(b.namespacesOf(name)) > 0:
		return nil, adminRefuse(http.StatusConflict, "The tenant still has active namespaces")
	}
	delete(b.tenants, name)
	return nil, nil
}

func (b *Broker) namespacesOf(tenant string) []string {
	names := []string{}
	for name := range b.namespaces {
		if strings.HasPrefix(name, tenant+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func adminNamespaces(b *Broker, r *adminRequest) (any, error) {
	if b.tenants[r.PathValue("t")] == nil {
		return nil, adminRefuse(http.StatusNotFound, "Tenant not found")
	}
	return b.namespacesOf(r.PathValue("t")), nil
}

func (b *Broker) namespace(r *adminRequest) (*namespace, error) {
	if ns := b.namespaces[r.namespaceName()]; ns != nil {
		return ns, nil
	}
	return nil, adminRefuse(http.StatusNotFound, "Namespace does not exist")
}

func adminCreateNamespace(b *Broker, r *adminRequest) (any, error) {
	switch name := r.namespaceName(); {
	case !validName(r.PathValue("n")):
		return nil, adminRefuse(http.StatusPreconditionFailed, "Namespace name is not valid")
	case b.tenants[r.PathValue("t")] == nil:
		return nil, adminRefuse(http.StatusNotFound, "Tenant does not exist")
	case b.namespaces[name] != nil:
		return nil, adminRefuse(http.StatusConflict, "Namespace already exists")
	}
	set, err := r.initialPolicies()
	if err == nil {
		b.namespaces[r.namespaceName()] = &namespace{policies: set, topics: map[string]policies{}}
	}
	return nil, err
}

func adminDeleteNamespace(b *Broker, r *adminRequest) (any, error) {
	if _, err := b.namespace(r); err != nil {
		return nil, err
	}
	name := r.namespaceName()
	topics := slices.Concat(b.topicsOf(persistent, name), b.topicsOf(nonPersistent, name))
	if len(topics) > 0 && !r.force() {
		return nil, adminRefuse(http.StatusConflict, "Cannot delete non empty namespace")
	}
	for _, topic := range topics {
		b.deleteTopic(b.topics[topic])
	}
	maps.DeleteFunc(b.partitions, func(topic string, _ int) bool { return inNamespace(topic, name) })
	maps.DeleteFunc(b.schemas, func(topic string, _ []storedSchema) bool { return inNamespace(topic, name) })
	delete(b.namespaces, name)
	return nil, nil
}

func adminTopics(b *Broker, r *adminRequest) (any, error) {
	if _, err := b.namespace(r); err != nil {
		return nil, err
	}
	names := b.topicsOf(r.domain(), r.namespaceName())
	if strings.HasSuffix(r.URL.Path, "/topics") {
		names = append(names, b.topicsOf(nonPersistent, r.namespaceName())...)
	}
	return append([]string{}, names...), nil
}

func adminPartitionedTopics(b *Broker, r *adminRequest) (any, error) {
	if _, err := b.namespace(r); err != nil {
		return nil, err
	}
	names := []string{}
	for name := range b.partitions {
		if strings.HasPrefix(name, r.domain()+"://"+r.namespaceName()+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
