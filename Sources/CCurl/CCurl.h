// libcurl's options for Swift, which cannot call functions with variable arguments.
#include <curl/curl.h>

static inline CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

static inline CURLcode ccurl_set_size(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_string(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}

typedef size_t (*ccurl_callback)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode ccurl_set_callback(CURL *handle, CURLoption option, ccurl_callback callback) {
    return curl_easy_setopt(handle, option, callback);
}

static inline int ccurl_is_done(const CURLMsg *message) {
    return message->msg == CURLMSG_DONE;
}

static inline CURLcode ccurl_result(const CURLMsg *message) {
    return message->data.result;
}

/* Whether the request has got a connection. */
static inline int ccurl_has_connection(CURL *handle) {
    curl_off_t microseconds = 0;
    return curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &microseconds) == CURLE_OK && microseconds > 0;
}

// Macros that Swift does not import.
static const size_t ccurl_pause = CURL_WRITEFUNC_PAUSE;
static const long ccurl_http = CURLPROTO_HTTP | CURLPROTO_HTTPS;

static inline long ccurl_features(void) {
    return curl_version_info(CURLVERSION_NOW)->features;
}
