// hiredis for Swift, which cannot call functions with variable arguments; with bounds for what a server sends.
#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

// The most elements of all arrays of one reply: hiredis allocates an array before they arrive, and arrays in arrays
// could fill the memory with few bytes.
enum { chiredis_most_elements = 100000 };

// From 1.5 on, hiredis compares the name in a server's certificate with the host; before, it only checks who signed it.
#if HIREDIS_MAJOR > 1 || (HIREDIS_MAJOR == 1 && HIREDIS_MINOR >= 5)
#include <hiredis/hiredis_ssl.h>
#define chiredis_verifies_names 1
#else
#define chiredis_verifies_names 0
#endif

#if HIREDIS_MAJOR >= 1
typedef size_t chiredis_count;
#else
typedef int chiredis_count;
#endif

// hiredis's own functions, and those that bound its replies.
static inline redisReplyObjectFunctions *chiredis_functions(int bounded) {
    static redisReplyObjectFunctions functions[2];
    return &functions[bounded];
}

static inline void *chiredis_bounded_array(const redisReadTask *task, chiredis_count count) {
    size_t *left = task->privdata;
    if (!left || count < 0 || (size_t)count > *left) return NULL;
    *left -= (size_t)count;
    return chiredis_functions(0)->createArray(task, count);
}

// Call it for a first context before any other: the functions are the same for all.
static inline void chiredis_prepare(redisContext *context) {
    *chiredis_functions(0) = *context->reader->fn;
    *chiredis_functions(1) = *context->reader->fn;
    chiredis_functions(1)->createArray = chiredis_bounded_array;
}

// Bounds the replies of a context. False: there is no memory.
static inline bool chiredis_bound(redisContext *context) {
    size_t *left = malloc(sizeof *left);
    if (!left) return false;
    *left = chiredis_most_elements;
    context->reader->privdata = left;
    context->reader->fn = chiredis_functions(1);
    return true;
}

// Begins another reply, whose bounds are the same again.
static inline void chiredis_begin_reply(redisContext *context) {
    *(size_t *)context->reader->privdata = chiredis_most_elements;
}

static inline void chiredis_unbound(redisContext *context) {
    if (context->reader) free(context->reader->privdata);
}

// From here on, nothing blocks.
static inline void chiredis_unblock(redisContext *context) { context->flags &= ~REDIS_BLOCK; }

// The bytes of a reply that has not arrived as a whole.
static inline long chiredis_waiting(const redisContext *context) {
    return (long)(context->reader->len - context->reader->pos);
}

static inline const char *chiredis_error(const redisContext *context) { return context->errstr; }

#define chiredis_text_of(name) #name
#define chiredis_text(name) chiredis_text_of(name)

// The file with the system's certificates: of Debian, Fedora, openSUSE, then of Alpine and macOS. NULL: none is there.
static inline const char *chiredis_system_certificates(void) {
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem", "/opt/homebrew/etc/openssl@3/cert.pem", "/usr/local/etc/openssl@3/cert.pem",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (access(files[i], R_OK) == 0) return files[i];
    return NULL;
}

// Begins TLS on a connected context, with the system's certificates or those of a file. NULL: done; or else the reason.
// From hiredis 1.0 on it is a library of its own, which is looked up when it is needed: the one of the same version.
static inline const char *chiredis_begin_tls(redisContext *context, const char *certificates, const char *host) {
#if HIREDIS_MAJOR >= 1
    static const char *const names[] = {
        ("libhiredis_ssl.so." chiredis_text(HIREDIS_SONAME)), "libhiredis_ssl.so", "libhiredis_ssl.dylib",
        "/opt/homebrew/lib/libhiredis_ssl.dylib", "/usr/local/lib/libhiredis_ssl.dylib",
    };
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) library = dlopen(names[i], RTLD_NOW);
    if (!library) return "the library hiredis_ssl is not installed";
    int (*prepare)(void) = (int (*)(void))dlsym(library, "redisInitOpenSSL");
    if (!certificates) certificates = chiredis_system_certificates();
    const char *directory = certificates ? NULL : "/etc/ssl/certs";
    int problem = 0;
#if chiredis_verifies_names
    redisSSLOptions options = {
        .cacert_filename = certificates, .capath = directory, .server_name = host,
        .verify_mode = REDIS_SSL_VERIFY_PEER, .verify_name = host,
    };
    void *(*create)(redisSSLOptions *, int *) =
        (void *(*)(redisSSLOptions *, int *))dlsym(library, "redisCreateSSLContextWithOptions");
#else
    void *(*create)(const char *, const char *, const char *, const char *, const char *, int *) =
        (void *(*)(const char *, const char *, const char *, const char *, const char *, int *))dlsym(
            library, "redisCreateSSLContext");
#endif
    int (*initiate)(redisContext *, void *) =
        (int (*)(redisContext *, void *))dlsym(library, "redisInitiateSSLWithContext");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "redisFreeSSLContext");
    if (!prepare || !create || !initiate || !release) return "the library hiredis_ssl is too old";
    prepare();
#if chiredis_verifies_names
    void *tls = create(&options, &problem);
#else
    void *tls = create(certificates, directory, NULL, NULL, host, &problem);
#endif
    if (!tls) return "the certificates cannot be read";
    int result = initiate(context, tls);
    release(tls);
    return result == REDIS_OK ? NULL : context->errstr;
#else
    (void)context, (void)certificates, (void)host;
    return "hiredis has TLS from version 1.0 on, and this program was built with an older one";
#endif
}
