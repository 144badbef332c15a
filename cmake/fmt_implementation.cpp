// The one copy of fmt's own code: Debian has no static libfmt, and with FMT_HEADER_ONLY every source that formats
// compiles all of it again, four times the work. Written for fmt 9; the build falls back to FMT_HEADER_ONLY elsewhere.
#include <fmt/format-inl.h>

static_assert(FMT_VERSION >= 90000 && FMT_VERSION < 100000);

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale&);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>, locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
